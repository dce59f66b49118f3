"""A chain: the best child of the best child, one node per depth.

Leaves out: sampled chains, whose proposals carry a q.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from specdec.noise import Noise
from specdec.selectors.protocol import Expand
from specdec.tree import Tree, chain
from specdec.values import Context, Nodes


@dataclasses.dataclass(frozen=True)
class Chain:
    """Grows one path.

    Args:
      num_nodes: nodes including the root, so `num_nodes - 1` drafts.
    """

    num_nodes: int

    @property
    def max_depth(self) -> int:
        """Depth of the last draft."""
        return self.num_nodes - 1

    def build(self, expand: Expand, state: Any, context: Context, noise: Noise) -> tuple[Tree, Any]:
        """A chain that ends where the selector has no child left."""
        batch = context.root.shape[0]
        slots = jnp.arange(self.num_nodes, dtype=jnp.int32)

        def grow(carry, slot):
            token, alive, state = carry
            column = jnp.full((batch, 1), slot, jnp.int32)
            nodes = Nodes(
                slot=column,
                token=token[:, None],
                depth=column,
                parent=column - 1,
                ancestors=jnp.broadcast_to(slots <= slot, (batch, 1, self.num_nodes)),
                valid=alive[:, None],
            )
            children, state = expand(state, nodes)
            best = children.token[:, 0, 0].astype(jnp.int32)
            logp = children.logp[:, 0, 0]
            alive &= logp > -jnp.inf
            return (jnp.where(alive, best, token), alive, state), (best, jnp.where(alive, logp, 0.0), alive)

        carry = (context.root, context.live, state)
        (_, _, state), (drafts, logp, alive) = jax.lax.scan(grow, carry, slots[:-1])
        tree = chain(context.root, drafts.T, alive.sum(0))
        total = jnp.cumsum(logp.T, axis=1)
        return tree.replace(logp=jnp.concatenate([jnp.zeros((batch, 1), total.dtype), total], axis=1)), state
