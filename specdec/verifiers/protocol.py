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
    """A frozen, hashable configuration."""

    @property
    def greedy(self) -> bool:
        """Works at temperature 0, and only there."""
        ...

    @property
    def lossy(self) -> bool:
        """The output differs from the target's distribution."""
        ...

    @property
    def shares_target_noise(self) -> bool:
        """A builder may reuse the target's noise without harm."""
        ...

    @property
    def needs_q(self) -> bool:
        """The tree must carry the distribution its children were drawn from."""
        ...

    def walk(
        self, logits: Float[Array, "B N V"], tree: Tree, context: Context, settings: Sampling, noise: Noise
    ) -> Acceptance:
        """The accepted path and the bonus id."""
        ...
