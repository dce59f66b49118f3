"""Coupled verification: the id at a position is argmax(log p + Gumbel), the noise fixed by seed and position.

The same seed therefore gives the same ids as plain decoding, whatever is drafted, and a builder that reuses the
noise drafts better (Gumbel-max coupling as in the uzu engine). Leaves out: building with the shared noise.
"""

from __future__ import annotations

import dataclasses

from jaxtyping import Array, Float

from specdec.noise import Noise, Purpose
from specdec.sampling import Sampling, log_probs
from specdec.tree import Tree
from specdec.values import Acceptance, Context
from specdec.verifiers.greedy import argmax_lowest
from specdec.verifiers.walk import walk_by_draws


@dataclasses.dataclass(frozen=True)
class Coupled:
    """Shared-Gumbel sampling: lossless, and equal to plain decoding seed by seed."""

    greedy = False
    lossy = False
    shares_target_noise = True
    needs_q = False

    def walk(
        self, logits: Float[Array, "B N V"], tree: Tree, context: Context, settings: Sampling, noise: Noise
    ) -> Acceptance:
        def draw(row, position):
            logp = log_probs(row, settings)
            return argmax_lowest(logp + noise.gumbel(Purpose.TARGET, position, row.shape[-1]))

        return walk_by_draws(logits, tree, context, draw)
