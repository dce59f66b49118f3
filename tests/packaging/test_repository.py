"""What must not be in a public repository."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from package_layout import PYPROJECT, ROOT

in_git = pytest.mark.skipif(not (ROOT / ".git").exists() or shutil.which("git") is None, reason="not a git checkout")


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def tracked() -> list[Path]:
    return [ROOT / name for name in git("ls-files", "-z").stdout.split("\0") if name]


@in_git
@pytest.mark.parametrize("folder", ["work", "root"])
def test_no_file_names_a_path_of_somebodys_machine(folder: str):
    """Only absolute paths: `/folder/` after a letter or a dot is part of a longer one."""
    pattern = re.compile(rf"(?<![\w.~*-])/{folder}/".encode())
    names = git("ls-files", "-z", "--cached", "--others", "--exclude-standard").stdout.split("\0")
    files = [ROOT / name for name in names if name and (ROOT / name).is_file()]
    assert files
    assert [str(path) for path in files if pattern.search(path.read_bytes())] == []


@in_git
def test_no_scratch_is_tracked():
    ignored = git("ls-files", "--cached", "--ignored", "--exclude-standard").stdout.split()
    assert not ignored


def test_scripts_may_be_run():
    for path in (".ci/run",):
        assert os.access(ROOT / path, os.X_OK), path


@in_git
def test_files_are_small():
    """A clone stays light; weights that are larger belong to a release, not to the history."""
    large = [path for path in tracked() if path.exists() and path.stat().st_size > 20 * 2**20]
    assert not large


def test_version_is_in_the_changelog():
    assert f"## {PYPROJECT['project']['version']}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_commands_of_the_pages_exist(page: str):
    """Every make target and every extra that a page names."""
    text = (ROOT / page).read_text()
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", text, flags=re.MULTILINE))
    assert named
    assert named <= targets
    extras = {extra for group in re.findall(r"(?:\.|specdec-jax)\[([\w,]+)\]", text) for extra in group.split(",")}
    assert extras <= set(PYPROJECT["project"]["optional-dependencies"])
