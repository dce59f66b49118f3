"""Where words go: results to standard output, everything said about them to standard error.

Leaves out: what the tables hold (`specdec.analysis.report`).
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from specdec.errors import SettingsError

PLAIN_WIDTH = 150  # of tables that go to a file or a pipe


def complain(message: str) -> None:
    """One line on standard error."""
    print(f"specdec: {' '.join(message.split())}", file=sys.stderr)


def warn(message: str) -> None:
    """One line about something that is probably not what was meant."""
    complain(f"warning: {message}")


def shout(message: str) -> None:
    """Something that must not be overlooked."""
    from rich.console import Console

    from specdec.analysis.report import warning_panel

    Console(stderr=True).print(warning_panel(message))


def show(renderable: Any) -> None:
    """Something rich can draw, on standard output; wide where no terminal limits it."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=PLAIN_WIDTH)
    console.print(renderable)


@contextlib.contextmanager
def progress_bar(wanted: bool = True) -> Iterator[Callable[[int, int, str], None]]:
    """A bar on standard error while the block runs, if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True, disable=not (wanted and console.is_terminal)) as bar:
        task = bar.add_task("", total=None)

        def advance(done: int, total: int, label: str) -> None:
            bar.update(task, completed=done, total=total, description=label)

        yield advance


def check_writable(path: Path) -> None:
    """Refuses, before any work, a file that could not be written after it.

    Raises:
      SettingsError: the folder is missing or closed, or the path is a folder.
    """
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise SettingsError(
            f"--json {path}: cannot be written. Name a file in an existing folder that you may write to."
        )


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON file whole or not at all: an older file stays until the new one is complete."""
    text = json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.absolute().parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
