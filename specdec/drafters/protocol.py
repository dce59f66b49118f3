"""What the decoding loop needs of a drafter.

Leaves out: how children are scored (`specdec.selectors`) and trees grown (`specdec.builders`).
"""

from __future__ import annotations

from typing import Any, Protocol

from specdec.noise import Noise
from specdec.selectors.protocol import Selector
from specdec.values import Candidates, Context, Outcome, PromptChunk, Readout


class Drafter(Protocol):
    """A frozen, hashable configuration with pure methods; parameters and state are arguments."""

    @property
    def features(self) -> tuple[int, ...]:
        """Target layers whose rows it reads."""
        ...

    @property
    def position_limit(self) -> int | None:
        """Positions it was made for, or None."""
        ...

    @property
    def selector(self) -> Selector | None:
        """Its own selector, or None when it returns candidates for any selector."""
        ...

    def init(self, params: Any, batch: int, capacity: int) -> Any:
        """State before any token."""
        ...

    def prime(self, params: Any, state: Any, chunk: PromptChunk) -> Any:
        """Reads one chunk of the prompt."""
        ...

    def propose(
        self, params: Any, state: Any, context: Context, readout: Readout, noise: Noise
    ) -> tuple[Candidates | None, Any]:
        """Marginal candidates for the next depths, or None from a drafter that brings its own selector."""
        ...

    def observe(self, params: Any, state: Any, outcome: Outcome) -> Any:
        """Learns what was accepted."""
        ...
