"""The drafter of plain decoding: nothing.

Leaves out: everything.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from specdec.noise import Noise
from specdec.values import Candidates, Context, Outcome, PromptChunk, Readout


@dataclasses.dataclass(frozen=True)
class Stateless:
    """Drafters that keep nothing between rounds inherit these five lines.

    `features` empty, no position limit, state is an empty tuple.
    """

    features = ()
    position_limit = None
    selector = None

    def init(self, params: Any, batch: int, capacity: int) -> tuple[()]:
        return ()

    def prime(self, params: Any, state: Any, chunk: PromptChunk) -> Any:
        return state

    def propose(
        self, params: Any, state: Any, context: Context, readout: Readout, noise: Noise
    ) -> tuple[Candidates | None, Any]:
        return None, state

    def observe(self, params: Any, state: Any, outcome: Outcome) -> Any:
        return state


@dataclasses.dataclass(frozen=True)
class NoDrafter(Stateless):
    """Never proposes anything."""
