"""The source archive and the wheel built from it, installed into a fresh environment.

The environment borrows the dependencies of the one that runs the tests (a `.pth` line), so nothing is
downloaded, but has its own `specdec`, and everything runs outside the repository.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from package_layout import MAPPING, ROOT, SETUPTOOLS, installed_path, modules, sources

DATA = (".gguf", ".jinja", ".json", ".jsonl", ".msgpack", ".npz", ".safetensors", ".txt")


def run(*command: str | Path, cwd: Path) -> str:
    """Run without a trace of the repository in the environment; return what was printed."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    result = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, f"{command} failed\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source archive, and the wheel built from it, of a copy of the repository without its scratch."""
    folder = tmp_path_factory.mktemp("build")
    scratch = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, folder / "copy", ignore=scratch)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, folder / "copy", cwd=folder)
    (archive,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    return archive, wheel


@pytest.fixture(scope="session")
def python(archives: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment with the wheel in it."""
    folder = tmp_path_factory.mktemp("fresh")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    scripts = "Scripts" if os.name == "nt" else "bin"
    python = folder / "venv" / scripts / "python"
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", archives[1], cwd=folder)
    # The line for the dependencies comes last. A .pth file in that folder, such as the one of an editable
    # install, is not read.
    borrowed = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    (site / "borrowed.pth").write_text("\n".join(borrowed) + "\n")
    return python


def test_every_folder_with_an_init_is_listed():
    """Fails when a sub-package is missing from `packages` in pyproject.toml."""
    found = {".".join(installed_path(path).parent.parts) for path in sources("__init__.py")}
    assert found == set(SETUPTOOLS["packages"])


def test_every_python_file_lies_in_a_package():
    """A folder without `__init__.py` would be left out of the wheel."""
    lost = [path for path in sources(".py") if not (path.parent / "__init__.py").exists()]
    assert not lost


def test_wheel_holds_the_sources_and_the_data(archives: tuple[Path, Path]):
    with zipfile.ZipFile(archives[1]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == {str(installed_path(path)) for path in sources(".py", "py.typed", *DATA)}


def test_wheel_takes_only_the_namespace(archives: tuple[Path, Path]):
    """`strategies` and `backends` would collide with a researcher's own folders."""
    with zipfile.ZipFile(archives[1]) as wheel:
        top = {PurePosixPath(name).parts[0] for name in wheel.namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"specdec"}


def test_source_archive_holds_the_tests_and_the_make_targets(archives: tuple[Path, Path]):
    with tarfile.open(archives[0]) as archive:
        names = {PurePosixPath(*PurePosixPath(name).parts[1:]) for name in archive.getnames()}
    for wanted in ("LICENSE", "Makefile", "README.md", "tests/conftest.py", "tools/typecheck.py"):
        assert PurePosixPath(wanted) in names, wanted


@pytest.mark.parametrize("package", sorted(MAPPING))
def test_package_comes_from_the_wheel(python: Path, package: str, tmp_path: Path):
    file = Path(run(python, "-c", f"import {package}; print({package}.__file__)", cwd=tmp_path).strip())
    assert file.is_relative_to(python.parents[1])
    assert file.parts[-1 - len(package.split(".")) : -1] == tuple(package.split("."))


def test_every_module_of_the_wheel_imports(python: Path, tmp_path: Path):
    run(
        python,
        "-c",
        f"import importlib\nfor name in {list(modules())}: importlib.import_module(name)",
        cwd=tmp_path,
    )


def test_metadata_names_the_licence_and_no_torch(python: Path, tmp_path: Path):
    code = "from importlib.metadata import metadata as m; print(m('specdec-jax').as_string())"
    text = run(python, "-c", code, cwd=tmp_path)
    assert "License-Expression: Apache-2.0" in text
    required = [line for line in text.splitlines() if line.startswith("Requires-Dist:") and "extra" not in line]
    assert required and not any("torch" in line for line in required)


@pytest.mark.parametrize("arguments", [("--help",), ("list",)], ids=" ".join)
def test_module_and_console_script_run(python: Path, arguments: tuple[str, ...], tmp_path: Path):
    script = python.with_name("specdec.exe" if os.name == "nt" else "specdec")
    from_module = run(python, "-m", "specdec", *arguments, cwd=tmp_path)
    from_script = run(script, *arguments, cwd=tmp_path)
    assert from_module.strip()
    assert from_script == from_module
