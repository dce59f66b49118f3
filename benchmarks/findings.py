"""What a benchmark found, beside its goal; as a table and as JSON.

Leaves out: measuring.
"""

from __future__ import annotations

import dataclasses
import enum
import statistics
from collections.abc import Sequence
from typing import Any

from measure import Sample
from rich.console import Console
from rich.table import Table


class Kind(enum.Enum):
    """How a goal is compared."""

    AT_MOST = "<="
    AT_LEAST = ">="
    EXACTLY = "="


@dataclasses.dataclass(frozen=True)
class Goal:
    """What a value should be."""

    kind: Kind
    limit: float

    def met_by(self, value: float) -> bool:
        match self.kind:
            case Kind.AT_MOST:
                return bool(value <= self.limit)
            case Kind.AT_LEAST:
                return bool(value >= self.limit)
            case Kind.EXACTLY:
                return bool(value == self.limit)

    def __str__(self) -> str:
        return f"{self.kind.value} {self.limit:g}"


def at_most(limit: float) -> Goal:
    return Goal(Kind.AT_MOST, limit)


def at_least(limit: float) -> Goal:
    return Goal(Kind.AT_LEAST, limit)


def exactly(limit: float) -> Goal:
    return Goal(Kind.EXACTLY, limit)


@dataclasses.dataclass(frozen=True)
class Finding:
    """One number.

    Args:
      name: what was measured.
      value: the number; None when it could not be had, and `note` says why.
      unit: of the value; "x" for ratios.
      goal: what it should be, if anything.
      note: what is needed to read it.
      minima: the same number from the fastest repetitions, if it is one of timings. Both must meet the goal: a
        busy machine disturbs a median, sometimes in the library's favour.
      detail: more numbers, for the JSON alone.
    """

    name: str
    value: float | None
    unit: str = ""
    goal: Goal | None = None
    note: str = ""
    minima: float | None = None
    detail: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        """None without a goal or a value."""
        if self.goal is None or self.value is None:
            return None
        return all(self.goal.met_by(one) for one in (self.value, self.minima) if one is not None)

    def json(self) -> dict[str, Any]:
        goal = None if self.goal is None else {"kind": self.goal.kind.value, "limit": self.goal.limit}
        return {**dataclasses.asdict(self), "goal": goal, "met": self.met}


def compared(name: str, above: Sample, below: Sample, goal: Goal | None = None, note: str = "") -> Finding:
    """One time over another: the median of the quotients of each repetition, and the quotient of the minima."""
    pairs = zip(above.seconds, below.seconds, strict=True)
    median = statistics.median(one / other for one, other in pairs)
    return Finding(name, median, "x", goal, note, above.minimum / below.minimum)


COLUMNS = ("", "measured", "by minima", "goal", "", "")
VERDICTS = {True: "met", False: "[bold]missed[/bold]", None: ""}


def show(console: Console, title: str, findings: Sequence[Finding]) -> None:
    """One table per benchmark: measured value and goal side by side."""
    table = Table(box=None, pad_edge=False, show_header=True)
    console.print(title, style="bold", soft_wrap=True)
    for column in COLUMNS:
        table.add_column(column, justify="right" if column else "left")
    for one in findings:
        value = "-" if one.value is None else f"{_short(one.value)} {one.unit}".rstrip()
        minima = "" if one.minima is None else _short(one.minima)
        table.add_row(one.name, value, minima, str(one.goal or ""), VERDICTS[one.met], one.note)
    console.print(table)
    console.print()


def _short(value: float) -> str:
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.2f}" if abs(value) < 100 else f"{value:,.0f}"
