"""What the decoding loop needs of a verifier.

Leaves out: the walk itself (`walk.py`).
"""

from __future__ import annotations

from typing import Protocol

from jaxtyping import Array, Float

from specdec.noise import Noise
from specdec.sampling import Sampling
from specdec.tree import Tree
from specdec.values import Acceptance, Context


class Verifier(Protocol):
    """A frozen, hashable configuration.

    `greedy`: works at temperature 0, and only there.  `lossy`: the output differs from the target's distribution.
    `shares_target_noise`: a builder may reuse the target's noise without harm.  `needs_q`: the tree must carry q.
    """

    greedy: bool
    lossy: bool
    shares_target_noise: bool
    needs_q: bool

    def walk(
        self, logits: Float[Array, "B N V"], tree: Tree, context: Context, settings: Sampling, noise: Noise
    ) -> Acceptance:
        """The accepted path and the bonus id."""
        ...
