"""How the folders of the repository map to the packages that install, read from pyproject.toml."""

import tomllib
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]
# Package name to folder, innermost package first.
MAPPING: dict[str, str] = dict(sorted(SETUPTOOLS["package-dir"].items(), reverse=True))


def sources(*endings: str) -> list[Path]:
    """The files of the packages with one of these endings, scratch files left out."""
    found = (path for folder in MAPPING.values() for path in (ROOT / folder).rglob("*"))
    return sorted(path for path in found if path.name.endswith(endings) and "__pycache__" not in path.parts)


def installed_path(path: Path) -> PurePosixPath:
    """Where a file of the repository lies below the folder that the package is installed into."""
    for package, folder in MAPPING.items():
        if path.is_relative_to(ROOT / folder):
            return PurePosixPath(*package.split("."), *path.relative_to(ROOT / folder).parts)
    raise ValueError(f"{path} belongs to no package of {', '.join(MAPPING)}")


def module_name(path: Path) -> str:
    """The name under which a file is imported."""
    return ".".join(installed_path(path).with_suffix("").parts).removesuffix(".__init__")


def modules() -> dict[str, Path]:
    """Every module by name, but not the one that `python -m specdec` runs."""
    names = {module_name(path): path for path in sources(".py")}
    return {name: path for name, path in names.items() if not name.endswith("__main__")}
