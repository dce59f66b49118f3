"""Best-first growth: always add the most probable prefix that is not in the tree yet.

With independent marginals, one node per call and enough children this is DDTree's heap (Ringel & Romano, 2026);
with Weaver it is the batched frontier of "Trees from Marginals" (arXiv 2607.06763, section on tree growth).
Leaves out: pruning after growth (`grow_and_prune`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from specdec.errors import SettingsError
from specdec.noise import Noise
from specdec.selectors.protocol import Expand
from specdec.tree import Tree, root_only
from specdec.values import Context, Nodes


class _Frontier(flax.struct.PyTreeNode):
    """A growing tree. The frontier is implicit: the best child of every slot that is not in the tree yet.

    A slot's children are sorted, so only the next one (`taken`) competes: N entries stand for N * children.
    """

    tree: Tree
    ancestors: Bool[Array, "B N N"]
    child_token: Int[Array, "B N P"]
    child_logp: Float[Array, "B N P"]
    taken: Int[Array, "B N"]
    order: Int[Array, "B N"]  # postorder rank of each slot, for ties


@dataclasses.dataclass(frozen=True)
class BestFirst:
    """Adds nodes in order of path log-probability; slots are in that order too, so `Tree.truncate` is a smaller budget.

    Ties go to the lexicographically smallest path of child ranks.

    Args:
      num_nodes: nodes including the root.
      nodes_per_call: nodes added between two calls of the selector (all of them are expanded together). Where the
        frontier holds fewer, the rest of their slots is padding, even if later calls find more.
      max_depth: deepest node; 0 means `num_nodes - 1`.
    """

    num_nodes: int
    nodes_per_call: int = 1
    max_depth: int = 0

    def __post_init__(self) -> None:
        if self.nodes_per_call < 1:
            raise SettingsError(f"nodes_per_call must be at least 1, got {self.nodes_per_call}.")
        deepest = self.num_nodes - 1
        object.__setattr__(self, "max_depth", min(self.max_depth or deepest, deepest))
        object.__setattr__(self, "nodes_per_call", min(self.nodes_per_call, max(deepest, 1)))

    def build(self, expand: Expand, state: Any, context: Context, noise: Noise) -> tuple[Tree, Any]:
        """Grows until the budget is spent or the selector has no child left."""
        frontier, state = self._start(expand, state, context)
        calls = -(-(self.num_nodes - 1) // self.nodes_per_call)

        def grow(call, carry):
            frontier, state = carry
            first = 1 + call * self.nodes_per_call
            for offset in range(self.nodes_per_call):
                frontier = self._pop(frontier, first + offset)
            return self._expand(expand, frontier, state, first, self.nodes_per_call)

        # The last nodes are not expanded: their children could not be added any more.
        frontier, state = jax.lax.fori_loop(0, calls - 1, grow, (frontier, state))
        for slot in range(max(1, 1 + (calls - 1) * self.nodes_per_call), self.num_nodes):
            frontier = self._pop(frontier, slot)
        return frontier.tree, state

    def _start(self, expand: Expand, state: Any, context: Context) -> tuple[_Frontier, Any]:
        batch, slots = context.root.shape[0], self.num_nodes
        pad = ((0, 0), (0, slots - 1))
        tree = jax.tree.map(lambda leaf: jnp.pad(leaf, pad), root_only(context.root))
        tree = tree.replace(valid=tree.valid & context.live[:, None])
        ancestors = jnp.broadcast_to(jnp.eye(slots, dtype=bool), (batch, slots, slots))
        children, state = expand(state, _nodes(tree, ancestors, jnp.zeros((1,), jnp.int32)))
        width = children.token.shape[2]
        frontier = _Frontier(
            tree=tree,
            ancestors=ancestors,
            child_token=_put(jnp.zeros((batch, slots, width), jnp.int32), 0, children.token),
            child_logp=_put(jnp.full((batch, slots, width), -jnp.inf, jnp.float32), 0, children.logp),
            taken=jnp.zeros((batch, slots), jnp.int32),
            order=jnp.zeros((batch, slots), jnp.int32),
        )
        return frontier, state

    def _pop(self, frontier: _Frontier, slot: Int[Array, ""] | int) -> _Frontier:
        """Moves the best frontier entry of each row into `slot`."""
        tree = frontier.tree
        batch, slots = tree.token.shape
        rows, places = jnp.arange(batch), jnp.arange(slots)[None, :]
        width = frontier.child_token.shape[2]
        rank = jnp.minimum(frontier.taken, width - 1)[..., None]
        edge = jnp.take_along_axis(frontier.child_logp, rank, axis=2)[..., 0]
        open_ = tree.valid & (frontier.taken < width) & (tree.depth < self.max_depth)
        score = jnp.where(open_, tree.logp + edge, -jnp.inf)
        best = score.max(1)
        # Descendants before ancestors, siblings by rank: postorder is the lexicographic order of the frontier.
        parent = jnp.where(score == best[:, None], frontier.order, slots).argmin(1).astype(jnp.int32)
        found = best > -jnp.inf
        token = jnp.take_along_axis(frontier.child_token, rank, axis=2)[..., 0][rows, parent]
        place = frontier.order[rows, parent]
        moved = (frontier.order >= place[:, None]) & (places < slot)
        order = frontier.order + moved.astype(jnp.int32)
        grown = tree.replace(
            token=_put(tree.token, slot, jnp.where(found, token, 0)),
            parent=_put(tree.parent, slot, jnp.where(found, parent, 0)),
            depth=_put(tree.depth, slot, jnp.where(found, tree.depth[rows, parent] + 1, 0)),
            logp=_put(tree.logp, slot, jnp.where(found, best, 0.0)),
            valid=_put(tree.valid, slot, found),
        )
        return frontier.replace(
            tree=grown,
            ancestors=_put(frontier.ancestors, slot, frontier.ancestors[rows, parent] | (places == slot)),
            taken=frontier.taken + ((places == parent[:, None]) & found[:, None]).astype(jnp.int32),
            order=_put(order, slot, place),
        )

    def _expand(
        self, expand: Expand, frontier: _Frontier, state: Any, first: Int[Array, ""], count: int
    ) -> tuple[_Frontier, Any]:
        slots = first + jnp.arange(count, dtype=jnp.int32)
        children, state = expand(state, _nodes(frontier.tree, frontier.ancestors, slots))
        frontier = frontier.replace(
            child_token=_put(frontier.child_token, first, children.token),
            child_logp=_put(frontier.child_logp, first, children.logp),
        )
        return frontier, state


def _put(table: Array, slot: Int[Array, ""] | int, entry: Array) -> Array:
    """Writes one slot (`entry` lacks the slot axis) or a run of slots of every row."""
    entry = entry if entry.ndim == table.ndim else entry[:, None]
    return jax.lax.dynamic_update_slice_in_dim(table, entry.astype(table.dtype), slot, axis=1)


def _nodes(tree: Tree, ancestors: Bool[Array, "B N N"], slots: Int[Array, "R"]) -> Nodes:
    return Nodes(
        slot=jnp.broadcast_to(slots, (tree.token.shape[0], slots.shape[0])),
        token=tree.token[:, slots],
        depth=tree.depth[:, slots],
        parent=tree.parent[:, slots],
        ancestors=ancestors[:, slots],
        valid=tree.valid[:, slots],
    )
