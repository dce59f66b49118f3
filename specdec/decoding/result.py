"""What a generation returns: ids, text, why it ended, every round, and the counters made of them.

Leaves out: comparing strategies (`specdec.analysis`).
"""

from __future__ import annotations

import dataclasses
import enum
from collections import Counter
from collections.abc import Sequence

import numpy as np

from specdec.decoding.state import Fallback, Records


class FinishReason(enum.Enum):
    """Why a generation ended: `stop` (stop id or string) or `length` (cap or context limit)."""

    STOP = "stop"
    LENGTH = "length"


@dataclasses.dataclass(frozen=True)
class RoundRecord:
    """One round of one row.

    Args:
      drafted: drafted nodes.  accepted: of them kept.  committed: accepted + 1.  deepest: depth of the tree.
      fallback: why nothing was drafted, or None.
    """

    drafted: int
    accepted: int
    committed: int
    deepest: int
    fallback: str | None = None


@dataclasses.dataclass(frozen=True)
class Timing:
    """Wall-clock seconds of a call, shared by the rows of a batch. `first_token` counts from the start."""

    first_token: float
    decode: float


@dataclasses.dataclass(frozen=True)
class Result:
    """One finished row.

    Args:
      ids: returned ids, the prefill's first token included.
      text: their text, special tokens left out; without the stop string if one ended it.
      finish_reason: why it ended.
      detail: what exactly: the stop id or string, "max_new_tokens" or "capacity".
      rounds: one record per target pass after prefill.
      prompt_ids: what was read.
      seed: reproduces this row alone.
      strategy: name of the strategy.  budget: its nodes per pass, the root included.
      timing: seconds.
    """

    ids: tuple[int, ...]
    text: str
    finish_reason: FinishReason
    detail: str
    rounds: tuple[RoundRecord, ...]
    prompt_ids: tuple[int, ...]
    seed: int
    strategy: str
    budget: int
    timing: Timing

    @property
    def target_passes(self) -> int:
        """Target passes after prefill."""
        return len(self.rounds)

    @property
    def drafted(self) -> int:
        """Drafted nodes over all rounds."""
        return sum(record.drafted for record in self.rounds)

    @property
    def accepted(self) -> int:
        """Drafted nodes that were kept."""
        return sum(record.accepted for record in self.rounds)

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted over drafted; None when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def tokens_per_pass(self) -> float | None:
        """(ids - 1) / passes; None without a pass (the prefill's own token needs none)."""
        return (len(self.ids) - 1) / self.target_passes if self.rounds else None

    @property
    def accepted_by_depth(self) -> tuple[float, ...]:
        """d-th entry: rounds that kept depth d / rounds whose tree reached depth d (d = 1, 2, ...)."""
        return accepted_by_depth(self.rounds)

    @property
    def fallbacks(self) -> dict[str, int]:
        """How often, and why, a round drafted nothing. Empty for plain decoding, which never means to."""
        if self.budget == 1:
            return {}
        return dict(Counter(record.fallback for record in self.rounds if record.fallback))

    @property
    def speculated(self) -> bool:
        """Whether any draft was verified."""
        return self.drafted > 0

    def summary(self) -> str:
        """One line: was speculation on, and what did it give."""
        seconds = self.timing.decode
        rate = f"{(len(self.ids) - 1) / seconds:.1f} tok/s" if seconds > 0 and len(self.ids) > 1 else "no decode time"
        if self.budget == 1:
            head = f"speculation off ({self.strategy})"
        elif self.speculated:
            head = (
                f"speculation on ({self.strategy}, budget {self.budget}): {self.tokens_per_pass:.2f} tokens per pass, "
                f"{self.accepted} of {self.drafted} drafted nodes accepted"
            )
        else:
            head = (
                f"speculation chosen ({self.strategy}) but nothing was ever drafted: {self.fallbacks or 'no pass ran'}"
            )
        return f"{head}; {len(self.ids)} tokens in {self.target_passes} target passes after prefill, {rate}"


def accepted_by_depth(rounds: Sequence[RoundRecord]) -> tuple[float, ...]:
    """d-th entry: rounds that kept depth d / rounds whose tree reached depth d."""
    reached = max((record.deepest for record in rounds), default=0)
    accepted = np.asarray([record.accepted for record in rounds])
    deepest = np.asarray([record.deepest for record in rounds])
    return tuple(float((accepted >= depth).sum() / (deepest >= depth).sum()) for depth in range(1, reached + 1))


def round_records(records: Records, row: int, count: int) -> tuple[RoundRecord, ...]:
    """The first `count` rounds of one row, from device records already moved to the host."""
    names = {reason.value: reason.name.lower() for reason in Fallback if reason is not Fallback.NONE}
    return tuple(
        RoundRecord(
            drafted=int(records.drafted[at, row]),
            accepted=int(records.accepted[at, row]),
            committed=int(records.committed[at, row]),
            deepest=int(records.deepest[at, row]),
            fallback=names.get(int(records.fallback[at, row])),
        )
        for at in range(count)
        if records.committed[at, row] > 0
    )
