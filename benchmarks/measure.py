"""Timing: calls take turns, so that a slow moment of the machine falls on all of them alike.

Leaves out: what is timed, and what the numbers are compared with.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax


@dataclasses.dataclass(frozen=True)
class Sample:
    """Seconds of every repetition of one call, per unit of its work."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def minimum(self) -> float:
        return min(self.seconds)

    def json(self) -> dict[str, Any]:
        return {"median": self.median, "minimum": self.minimum, "repetitions": len(self.seconds)}


def take_turns(
    calls: Mapping[str, Callable[[], Any]],
    repetitions: int,
    *,
    work: int = 1,
    prepare: Callable[[], Any] | None = None,
) -> dict[str, Sample]:
    """Times every call once per repetition, each time beginning with another one.

    Args:
      calls: what to time; what a call returns is waited for.
      repetitions: counted ones; one more before them compiles and warms up.
      work: units of work in a call; times are per unit.
      prepare: runs before every call, outside the clock; what it returns is the call's argument.
    """
    names = list(calls)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for repetition in range(-1, repetitions):
        turn = repetition % len(names)
        for name in names[turn:] + names[:turn]:
            arguments = () if prepare is None else (jax.block_until_ready(prepare()),)
            started = time.perf_counter()
            jax.block_until_ready(calls[name](*arguments))
            if repetition >= 0:
                seconds[name].append((time.perf_counter() - started) / work)
    return {name: Sample(tuple(found)) for name, found in seconds.items()}
