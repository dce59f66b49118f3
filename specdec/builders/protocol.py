"""What the decoding loop needs of a tree builder.

Leaves out: where children come from (`specdec.selectors.Expand`).
"""

from __future__ import annotations

from typing import Any, Protocol

from specdec.noise import Noise
from specdec.selectors.protocol import Expand
from specdec.tree import Tree
from specdec.values import Context


class Builder(Protocol):
    """A frozen, hashable configuration; `num_nodes` counts the root."""

    @property
    def num_nodes(self) -> int:
        """Slots of the trees, the root included."""
        ...

    @property
    def max_depth(self) -> int:
        """Depth of the deepest node it may grow."""
        ...

    def build(self, expand: Expand, state: Any, context: Context, noise: Noise) -> tuple[Tree, Any]:
        """Grows a tree of `num_nodes` slots; returns it with the selector's final state."""
        ...
