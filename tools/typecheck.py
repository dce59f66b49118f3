"""Run mypy on the package as it installs.

`strategies/` and `backends/` lie at the top of the repository but are imported as `specdec.strategies` and
`specdec.backends`, which mypy cannot know. So a temporary tree of symbolic links is laid as the package
installs, from the `package-dir` table of pyproject.toml, and mypy runs there. Messages are given with the
real paths.

That the mapped packages are really seen is proved on every run: a wrong file is put into each of them, in
the tree only, and mypy has to complain about it. Type checking of tests and examples is left out.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROBE = "_typecheck_probe"


def package_dirs() -> dict[str, str]:
    """Package name to folder, outermost package first."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    mapping: dict[str, str] = config["tool"]["setuptools"]["package-dir"]
    return dict(sorted(mapping.items()))


def lay_tree(tree: Path, mapping: dict[str, str]) -> None:
    """Link every Python file to where it installs."""
    for package, folder in mapping.items():
        source, destination = ROOT / folder, tree.joinpath(*package.split("."))
        for file in [*source.rglob("*.py"), *source.rglob("*.pyi"), *source.rglob("py.typed")]:
            link = destination / file.relative_to(source)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(file)


def mypy(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run mypy in the tree (its own folder comes first on mypy's search path)."""
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    command += ["--cache-dir", str(ROOT / ".mypy_cache"), *arguments]
    environment = {key: value for key, value in os.environ.items() if key != "MYPYPATH"}
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)


def real_paths(text: str, mapping: dict[str, str]) -> str:
    """Name the files of the repository, not those of the tree."""
    for package, folder in reversed(mapping.items()):
        text = re.sub(rf"^{package.replace('.', '/')}/", f"{folder}/", text, flags=re.MULTILINE)
    return text


def prove(tree: Path, mapping: dict[str, str]) -> list[str]:
    """Make errors in the tree; return the complaints that did not come.

    Every package gets a file that is wrong by itself (line 1) and one that misuses what another package's
    wrong file declares (line 4), so the packages are seen, and see each other.
    """
    packages = list(mapping)
    files = {}
    for package, other in zip(packages, packages[1:] + packages[:1], strict=True):
        file = tree.joinpath(*package.split("."), f"{PROBE}.py")
        lines = ["number: int = 'text'", f"from {other} import {PROBE}", "", f"text: str = {PROBE}.number"]
        file.write_text("\n".join(lines) + "\n")
        files[f"{package}.{PROBE}"] = file.relative_to(tree)
    output = mypy(tree, *(part for module in files for part in ("-m", module))).stdout
    return [
        f"{file}:{line}"
        for file in files.values()
        for line in (1, 4)
        if not re.search(rf"^{re.escape(str(file))}:{line}: error: .*\[assignment\]$", output, re.MULTILINE)
    ]


def main() -> int:
    """Check the package, then the check."""
    mapping = package_dirs()
    with tempfile.TemporaryDirectory(prefix="typecheck-") as folder:
        tree = Path(folder).resolve()
        lay_tree(tree, mapping)
        result = mypy(tree, "-p", min(mapping, key=len))
        missing = prove(tree, mapping)
    sys.stdout.write(real_paths(result.stdout, mapping))
    sys.stderr.write(result.stderr)
    if missing:
        print("typecheck: a deliberate error was not reported:", *missing, sep="\n  ")
        return 2
    print("typecheck: deliberate errors are reported in", ", ".join(mapping))
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
