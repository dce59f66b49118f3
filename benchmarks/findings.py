"""What a benchmark found, beside its goal; as a table and as JSON.

Leaves out: measuring.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

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
                return value <= self.limit
            case Kind.AT_LEAST:
                return value >= self.limit
            case Kind.EXACTLY:
                return value == self.limit

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
      detail: more numbers, for the JSON alone.
    """

    name: str
    value: float | None
    unit: str = ""
    goal: Goal | None = None
    note: str = ""
    detail: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        """None without a goal or a value."""
        return None if self.goal is None or self.value is None else self.goal.met_by(self.value)

    def json(self) -> dict[str, Any]:
        goal = None if self.goal is None else {"kind": self.goal.kind.value, "limit": self.goal.limit}
        return {**dataclasses.asdict(self), "goal": goal, "met": self.met}


VERDICTS = {True: "met", False: "[bold]missed[/bold]", None: ""}


def show(console: Console, title: str, findings: Sequence[Finding]) -> None:
    """One table per benchmark: measured value and goal side by side."""
    table = Table(box=None, pad_edge=False, show_header=True)
    console.print(title, style="bold", soft_wrap=True)
    for column, justify in (("", "left"), ("measured", "right"), ("goal", "right"), ("", "left"), ("", "left")):
        table.add_column(column, justify=justify, no_wrap=column != "")
    for one in findings:
        value = "-" if one.value is None else f"{_short(one.value)} {one.unit}".rstrip()
        table.add_row(one.name, value, str(one.goal or ""), VERDICTS[one.met], one.note)
    console.print(table)
    console.print()


def _short(value: float) -> str:
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.2f}" if abs(value) < 100 else f"{value:,.0f}"
