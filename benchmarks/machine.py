"""What else the machine was doing: a measurement next to a busy neighbour says so.

Leaves out: processors' own frequency changes.
"""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path

STAT = Path("/proc/stat")
BUSY = 0.1  # of all cores, taken by others


@dataclasses.dataclass
class Neighbours:
    """The share of all cores that other processes took during a `with` block; None where it cannot be told."""

    share: float | None = None

    def __enter__(self) -> Neighbours:
        self._start = _ticks()
        return self

    def __exit__(self, *error: object) -> None:
        end = _ticks()
        if self._start is None or end is None:
            return
        total, busy, own = (after - before for after, before in zip(end, self._start, strict=True))
        self.share = max(0.0, (busy - own) / total) if total else None

    @property
    def busy(self) -> bool:
        return self.share is not None and self.share > BUSY

    def __str__(self) -> str:
        return "unknown" if self.share is None else f"{self.share:.0%} of all cores"


def load_average() -> list[float] | None:
    """Of the last 1, 5 and 15 minutes."""
    try:
        return [round(one, 2) for one in os.getloadavg()]
    except OSError:
        return None


def idle_check(seconds: float = 1.0) -> Neighbours:
    """What the neighbours take while this process does nothing."""
    with Neighbours() as found:
        time.sleep(seconds)
    return found


def use_cores(count: int) -> str | None:
    """Confines this process, and so every thread pool it starts later, to `count` cores; says why not if it cannot."""
    try:
        available = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, available[:count])
    except AttributeError:
        return "this system cannot confine a process to some cores: XLA uses all of them"
    if len(available) < count:
        return f"only {len(available)} core(s) are available, {count} were asked for"
    return None


def _ticks() -> tuple[float, float, float] | None:
    """Ticks of all cores; of them not idle, those the hypervisor took included; of them this process's own.

    Children count as own once they have ended.
    """
    try:
        fields = [int(field) for field in STAT.read_text().splitlines()[0].split()[1:9]]
    except OSError:
        return None
    times = os.times()
    own = sum((times.user, times.system, times.children_user, times.children_system)) * os.sysconf("SC_CLK_TCK")
    return sum(fields), sum(fields) - fields[3] - fields[4], own
