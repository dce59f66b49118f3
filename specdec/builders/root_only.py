"""No drafts at all: the builder of plain decoding.

Leaves out: everything.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from specdec.noise import Noise
from specdec.selectors.protocol import Expand
from specdec.tree import Tree, root_only
from specdec.values import Context


@dataclasses.dataclass(frozen=True)
class RootOnly:
    """A tree of one node, never asking the selector."""

    num_nodes: int = 1
    max_depth: int = 0

    def build(self, expand: Expand, state: Any, context: Context, noise: Noise) -> tuple[Tree, Any]:
        return root_only(context.root), state
