"""Target-only verification: draw from the target at every visited node with one uniform, descend on a match.

Exact for any tree grown without the verifier's noise; one uniform per visited depth instead of a vocabulary of
Gumbel noise. Leaves out: using a proposal's q, which would accept more of a sampled tree.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float

from specdec.backends import cumsum
from specdec.noise import Noise, Purpose
from specdec.sampling import Sampling, log_probs
from specdec.tree import Tree
from specdec.values import Acceptance, Context
from specdec.verifiers.walk import walk_by_draws


@dataclasses.dataclass(frozen=True)
class TargetOnly:
    """Inverse-CDF sampling of the target, independent of how the tree was grown."""

    greedy = False
    lossy = False
    shares_target_noise = False
    needs_q = False

    def walk(
        self, logits: Float[Array, "B N V"], tree: Tree, context: Context, settings: Sampling, noise: Noise
    ) -> Acceptance:
        def draw(row, position):
            p = jnp.exp(log_probs(row, settings))
            mass = cumsum(p)
            # Scaled by the total that float32 really reached, so the last id with mass is always in range.
            mark = noise.uniform(Purpose.WALK, position)[:, None] * mass[:, -1:]
            token = (mass <= mark).sum(-1, dtype=jnp.int32)
            return jnp.minimum(token, row.shape[-1] - 1), jnp.isnan(mass[:, -1])

        return walk_by_draws(logits, tree, context, draw)
