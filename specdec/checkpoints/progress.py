"""Progress bars on standard error, or nothing.

Leaves out: what progress is made in.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Protocol


class Stages(Protocol):
    """Shows work that comes in stages."""

    def stage(self, label: str, total: int) -> contextlib.AbstractContextManager[Callable[[int], None]]:
        """Begin a stage of `total` bytes; the callable takes the bytes done so far."""
        ...


class _Silent:
    @contextlib.contextmanager
    def stage(self, label: str, total: int) -> Iterator[Callable[[int], None]]:
        yield lambda done: None


class _Bars:
    def __init__(self, bars):
        self._bars = bars

    @contextlib.contextmanager
    def stage(self, label: str, total: int) -> Iterator[Callable[[int], None]]:
        task = self._bars.add_task(label, total=total)
        yield lambda done: self._bars.update(task, completed=min(done, total))
        self._bars.update(task, completed=total)


@contextlib.contextmanager
def shown_stages(wanted: bool) -> Iterator[Stages]:
    """Bars while the block runs, if wanted.

    Args:
      wanted: False draws nothing.

    Yields:
      What the stages are reported to.
    """
    if not wanted:
        yield _Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    # Standard output belongs to the generated text.
    with Progress(*columns, console=Console(stderr=True)) as bars:
        yield _Bars(bars)
