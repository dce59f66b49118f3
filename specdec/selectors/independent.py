"""Independent marginals: every node of a depth has the same children, the drafter's candidates for that depth.

With `best_first` and one node per call this is DDTree's set of most probable prefixes (Ringel & Romano, 2026).
Leaves out: any dependency between depths; that is Weaver's.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp

from specdec.noise import Noise
from specdec.values import Candidates, Children, Context, Nodes, Readout


@dataclasses.dataclass(frozen=True)
class Independent:
    """Children are the marginal candidates of the next depth, scored `logits - log_z`.

    Args:
      children: how many of the candidates a node may use.
    """

    children: int = 16
    needs_candidates = True

    def begin(
        self,
        params: Any,
        candidates: Candidates | None,
        drafter_state: Any,
        context: Context,
        readout: Readout,
        noise: Noise,
        slots: int,
    ) -> Candidates:
        assert candidates is not None  # the compatibility check has refused drafters without marginals
        return candidates

    def expand(self, params: Any, state: Candidates, nodes: Nodes) -> tuple[Children, Candidates]:
        depths = state.ids.shape[1]
        batch = jnp.arange(nodes.depth.shape[0])[:, None]
        at = jnp.minimum(nodes.depth, depths - 1)
        logp = state.logits[batch, at, : self.children] - state.log_z[batch, at][..., None]
        logp = jnp.where((nodes.depth < depths)[..., None], logp, -jnp.inf)
        return Children(token=state.ids[batch, at, : self.children], logp=logp), state
