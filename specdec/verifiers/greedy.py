"""Greedy verification: the target's argmax, ties to the lowest id.

Leaves out: sampling.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from specdec.noise import Noise
from specdec.sampling import Sampling
from specdec.tree import Tree
from specdec.values import Acceptance, Context
from specdec.verifiers.walk import walk_by_draws


def argmax_lowest(scores: Float[Array, "B V"]) -> tuple[Int[Array, "B"], Array]:
    """Index of the maximum, lowest on ties, and whether a NaN was seen (then the index is meaningless)."""
    top = scores.max(-1, keepdims=True)
    size = scores.shape[-1]
    index = jnp.where(scores == top, jnp.arange(size, dtype=jnp.int32), size).min(-1)
    return jnp.minimum(index, size - 1), jnp.isnan(top[..., 0])


@dataclasses.dataclass(frozen=True)
class Greedy:
    """Keeps the drafts that are the target's argmax; the output is that of plain greedy decoding."""

    greedy = True
    lossy = False
    shares_target_noise = True
    needs_q = False

    def walk(
        self, logits: Float[Array, "B N V"], tree: Tree, context: Context, settings: Sampling, noise: Noise
    ) -> Acceptance:
        return walk_by_draws(logits, tree, context, lambda row, position: argmax_lowest(row))
