"""The values that cross a boundary between parts: what one part hands to the next, and nothing else.

Axis letters: `B` rows, `N` nodes of a tree, `R` nodes of one call, `D` depth, `P` candidates, `C` cache
capacity, `V` vocabulary, `H` model width, `F` captured feature width, `S` prompt chunk.
Leaves out: the tree itself (`tree.py`) and all behaviour.
"""

from __future__ import annotations

from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from specdec.backends import scatter_rows


class Context(flax.struct.PyTreeNode):
    """What is committed, as every part sees it.

    Args:
      root: last committed id; its K/V is not cached yet.
      length: cached length L, which is also the root's position.
      h0: the target's final-norm row that produced the root.
      history: committed ids at positions 0..L (the root included); later entries are meaningless.
      limit: deepest depth that can still be committed (cap, capacity); 0 allows the root alone.
      live: rows that are still decoding.
    """

    root: Int[Array, "B"]
    length: Int[Array, "B"]
    h0: Float[Array, "B H"]
    history: Int[Array, "B C"]
    limit: Int[Array, "B"]
    live: Bool[Array, "B"]

    def advance(self, tokens: Int[Array, "B E"], acceptance: Acceptance, hidden: Float[Array, "B N H"]) -> Context:
        """Commits one round: `tokens` are the candidates for positions L+1.. (accepted drafts, then the bonus).

        Rows that are not live keep everything.
        """
        batch = jnp.arange(self.root.shape[0])
        last = acceptance.path[batch, acceptance.accepted]
        width = tokens.shape[1]
        offsets = jnp.arange(width)
        keep = (offsets[None, :] <= acceptance.accepted[:, None]) & self.live[:, None]
        # A dropped index leaves the entry alone: rejected tokens never reach the history.
        where = jnp.where(keep, self.length[:, None] + 1 + offsets[None, :], self.history.shape[1])
        return self.replace(
            root=jnp.where(self.live, acceptance.bonus, self.root),
            length=self.length + acceptance.committed,
            h0=jnp.where(self.live[:, None], hidden[batch, last], self.h0),
            history=scatter_rows(self.history, where, tokens),
        )


class Candidates(flax.struct.PyTreeNode):
    """Marginal proposals of a drafter that does not see its own guesses (DFlash).

    Args:
      ids: the P best ids of every depth 1..D, best first.
      logits: their raw logits.
      log_z: logsumexp over the drafter's whole vocabulary, so that `logits - log_z` are log-probabilities.
      hidden: the drafter's output rows of depths 1..D.
    """

    ids: Int[Array, "B D P"]
    logits: Float[Array, "B D P"]
    log_z: Float[Array, "B D"]
    hidden: Float[Array, "B D H"]


class Readout(flax.struct.PyTreeNode):
    """What the target lends to drafters and selectors, so that none of them imports a target.

    Args:
      embedding: token embedding rows.
      head: output head rows (the same array when tied).
      vocab_limit: ids at or above it are never proposed (static).
    """

    embedding: Float[Array, "V H"]
    head: Float[Array, "V H"]
    vocab_limit: int = flax.struct.field(pytree_node=False)


class Nodes(flax.struct.PyTreeNode):
    """Tree nodes handed to a selector for expansion.

    Args:
      slot: tree slot.  token: id at the node.  depth: edges from the root.  parent: parent's slot (-1 for the root).
      ancestors: which slots lie on the node's root path, itself included.
      valid: padding nodes are expanded too, but their children are ignored.
    """

    slot: Int[Array, "B R"]
    token: Int[Array, "B R"]
    depth: Int[Array, "B R"]
    parent: Int[Array, "B R"]
    ancestors: Bool[Array, "B R N"]
    valid: Bool[Array, "B R"]


class Children(flax.struct.PyTreeNode):
    """Proposed children of each expanded node, best first.

    Args:
      token: ids; siblings are distinct.
      logp: log-probability of the edge (<= 0); -inf marks "no such child".
    """

    token: Int[Array, "B R P"]
    logp: Float[Array, "B R P"]


class Verified(flax.struct.PyTreeNode):
    """One target pass over a tree; the target state is untouched.

    Args:
      logits: raw next-token logits of every node (ids at or above the vocabulary limit are -inf).
      hidden: final-norm row of every node.
      features: captured residual rows, concatenated in the order asked for, or None.
      pending: what `commit` needs; opaque to everybody else.
    """

    logits: Float[Array, "B N V"]
    hidden: Float[Array, "B N H"]
    features: Float[Array, "B N F"] | None
    pending: Any


class Acceptance(flax.struct.PyTreeNode):
    """A verifier's verdict.

    Args:
      path: accepted slots by depth; path[:, 0] is the root, entries beyond `accepted` are meaningless.
      accepted: m, drafts kept (the root is not counted).
      bonus: the id after the last accepted node; it becomes the next root.
      committed: cache entries to write: m + 1, or 0 for a row that is not live.
      nan: rows whose visited logits held a NaN.
    """

    path: Int[Array, "B E"]
    accepted: Int[Array, "B"]
    bonus: Int[Array, "B"]
    committed: Int[Array, "B"]
    nan: Bool[Array, "B"]


class PromptChunk(flax.struct.PyTreeNode):
    """A slice of the prompt that the target has just read; drafters start from these.

    Args:
      tokens: ids, right-padded.
      start: position of the first one.
      count: how many belong to the row.
      total: length of the row's whole prompt.
      hidden: the target's final-norm rows.
      features: captured residual rows or None.
    """

    tokens: Int[Array, "B S"]
    start: Int[Array, "B"]
    count: Int[Array, "B"]
    total: Int[Array, "B"]
    hidden: Float[Array, "B S H"]
    features: Float[Array, "B S F"] | None


class Outcome(flax.struct.PyTreeNode):
    """Everything a drafter may learn from a finished round (see `Drafter.observe`)."""

    context: Context
    tree: Any
    verified: Verified
    acceptance: Acceptance
    expansion: Any


def path_tokens(tree_token: Int[Array, "B N"], acceptance: Acceptance) -> Int[Array, "B E"]:
    """Ids a round commits at positions L+1..: accepted drafts by depth, then the bonus, then padding."""
    shifted = jnp.roll(acceptance.path, -1, axis=1)
    drafts = jnp.take_along_axis(tree_token, shifted, axis=1)
    depth = jnp.arange(shifted.shape[1])[None, :]
    return jnp.where(depth < acceptance.accepted[:, None], drafts, acceptance.bonus[:, None])


def tree_bytes(pytree: Any) -> int:
    """Bytes held by the arrays of a pytree."""
    return sum(leaf.nbytes for leaf in jax.tree.leaves(pytree) if hasattr(leaf, "nbytes"))
