"""The drafter of plain decoding: nothing.

Leaves out: everything.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp

from specdec.noise import Noise
from specdec.values import Candidates, Children, Context, Nodes, Outcome, PromptChunk, Readout


@dataclasses.dataclass(frozen=True)
class Stateless:
    """Drafters that keep nothing between rounds inherit these four lines; they add their own `selector`."""

    features = ()
    position_limit = None

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
    """Never proposes anything, and is its own selector: no node has children."""

    children = 1
    needs_candidates = False

    @property
    def selector(self) -> NoDrafter:
        """Itself."""
        return self

    def begin(
        self,
        params: Any,
        candidates: Candidates | None,
        drafter_state: Any,
        context: Context,
        readout: Readout,
        noise: Noise,
        slots: int,
    ) -> tuple[()]:
        return ()

    def expand(self, params: Any, state: Any, nodes: Nodes) -> tuple[Children, Any]:
        nothing = jnp.full((*nodes.token.shape, 1), -jnp.inf, jnp.float32)
        return Children(token=jnp.zeros(nothing.shape, jnp.int32), logp=nothing), state
