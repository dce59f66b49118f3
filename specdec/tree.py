"""Draft trees: tokens with parents, depth-indexed positions, and the ancestor mask that one pass needs.

Slot 0 is the root, parents precede children, a chain is a tree.
Leaves out: how a tree is grown (`builders/`) and walked (`verifiers/`).
"""

from __future__ import annotations

from typing import Any

import flax.struct
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from specdec.errors import SettingsError


class Tree(flax.struct.PyTreeNode):
    """N nodes per row in topological order.

    Args:
      token: ids; slot 0 holds the root.
      parent: slot of the parent, -1 for the root; padding nodes point at the root.
      depth: edges from the root.
      logp: path log-probability under whatever grew the tree (0 at the root).
      valid: False marks padding, which never influences a valid node.
      q: distribution that a node's children were *drawn* from, or None for deterministic children.
    """

    token: Int[Array, "B N"]
    parent: Int[Array, "B N"]
    depth: Int[Array, "B N"]
    logp: Float[Array, "B N"]
    valid: Bool[Array, "B N"]
    q: Any = None

    @property
    def num_nodes(self) -> int:
        """Nodes per row, padding and root included (the budget)."""
        return self.token.shape[1]

    @property
    def drafted(self) -> Int[Array, "B"]:
        """Valid nodes without the root."""
        return self.valid.sum(1) - 1

    @property
    def deepest(self) -> Int[Array, "B"]:
        """Depth of the deepest valid node."""
        return jnp.where(self.valid, self.depth, 0).max(1)

    def ancestors(self) -> Bool[Array, "B N N"]:
        """Mask whose entry (i, j) says that j lies on i's root path, i included.

        Squaring "self or parent" doubles the reach, so log2(N) products are enough.
        """
        slots = jnp.arange(self.num_nodes)
        link = (self.parent[:, :, None] == slots[None, None, :]) & self.valid[:, :, None]
        reach = (link | (slots[:, None] == slots[None, :])[None]).astype(jnp.float32)
        for _ in range(max(self.num_nodes - 1, 1).bit_length()):
            reach = jnp.minimum(jnp.einsum("bij,bjk->bik", reach, reach), 1.0)
        return reach > 0

    def prune(self, limit: Int[Array, "B"]) -> Tree:
        """Invalidates nodes deeper than `limit`; negative limits leave the root alone valid."""
        return self.replace(valid=self.valid & (self.depth <= jnp.maximum(limit, 0)[:, None]))

    def truncate(self, num_nodes: int) -> Tree:
        """The first `num_nodes` slots: for a best-first tree, exactly the tree of that smaller budget."""
        return self.replace(
            **{name: getattr(self, name)[:, :num_nodes] for name in ("token", "parent", "depth", "logp", "valid")}
        )

    def _repr_html_(self) -> str:
        from specdec.analysis.draw import tree_html

        return tree_html(self)


def root_only(root: Int[Array, "B"]) -> Tree:
    """The tree of plain decoding: one node."""
    column = root[:, None]
    zeros = jnp.zeros_like(column)
    return Tree(
        token=column,
        parent=zeros - 1,
        depth=zeros,
        logp=jnp.zeros(column.shape, jnp.float32),
        valid=jnp.ones(column.shape, bool),
    )


def chain(root: Int[Array, "B"], drafts: Int[Array, "B D"], count: Int[Array, "B"]) -> Tree:
    """A one-child-per-node tree over the first `count` drafts of each row."""
    slots = jnp.arange(drafts.shape[1] + 1, dtype=jnp.int32)[None, :]
    token = jnp.concatenate([root[:, None], drafts], axis=1)
    shape = token.shape
    return Tree(
        token=token,
        parent=jnp.broadcast_to(slots - 1, shape),
        depth=jnp.broadcast_to(slots, shape),
        logp=jnp.zeros(shape, jnp.float32),
        valid=slots <= count[:, None],
    )


def validate(tree: Tree) -> None:
    """Checks the invariants of a concrete tree on the host; for tests and hand-made trees.

    Raises:
      SettingsError: naming the row, the slot and the rule that is broken.
    """
    token, parent, depth, valid = (np.asarray(x) for x in (tree.token, tree.parent, tree.depth, tree.valid))
    for row in range(token.shape[0]):
        if not valid[row, 0] or parent[row, 0] != -1 or depth[row, 0] != 0:
            raise SettingsError(f"row {row}: slot 0 must be a valid root with parent -1 and depth 0.")
        children: set[tuple[int, int]] = set()
        for slot in range(1, token.shape[1]):
            if not valid[row, slot]:
                continue
            up = parent[row, slot]
            if not 0 <= up < slot:
                raise SettingsError(f"row {row}, slot {slot}: parent {up} must lie in 0..{slot - 1}.")
            if not valid[row, up]:
                raise SettingsError(f"row {row}, slot {slot}: parent {up} is padding.")
            if depth[row, slot] != depth[row, up] + 1:
                raise SettingsError(f"row {row}, slot {slot}: depth {depth[row, slot]} is not its parent's plus one.")
            edge = (int(up), int(token[row, slot]))
            if edge in children:
                raise SettingsError(f"row {row}, slot {slot}: token {edge[1]} appears twice under slot {up}.")
            children.add(edge)
