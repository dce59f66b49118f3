"""Full attention: keys and values of every committed position, batch first, one length per row.

Tree entries stay in a separate pending buffer until commit, so a rejected branch was never in the cache.
One softmax spans the committed prefix and the tree; the prefix is a power-of-two slice chosen by a switch, so
the cost follows the live length, not the capacity.
Leaves out: windows and recurrent state, which are kinds of their own.
"""

from __future__ import annotations

import dataclasses
import functools

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from specdec.backends import scatter_rows
from specdec.cache.kind import live_prefix, prefix_sizes

UNROLLED_ROWS = 8  # larger batches loop over their rows, or compilation would grow with them
MASKED = -1e30  # its exponential underflows to exactly 0 beside any visible score


class FullState(flax.struct.PyTreeNode):
    """Committed keys and values; positions at or beyond a row's length are garbage."""

    key: Float[Array, "B K C E"]
    value: Float[Array, "B K C E"]


class Pending(flax.struct.PyTreeNode):
    """Keys and values of tree slots that are not committed."""

    key: Float[Array, "B K N E"]
    value: Float[Array, "B K N E"]


@dataclasses.dataclass(frozen=True)
class FullAttention:
    """The kind of a layer that sees everything before it.

    Args:
      num_kv_heads: K.
      head_dim: channels per head.
      dtype: of the stored keys and values.
      precision: of the attention products ("highest" keeps fp32 exact on accelerators).
    """

    num_kv_heads: int
    head_dim: int
    dtype: str = "float32"
    precision: jax.lax.Precision = jax.lax.Precision.HIGHEST

    node_axis = 2  # of the pending buffers

    def init(self, batch: int, capacity: int) -> FullState:
        shape = (batch, self.num_kv_heads, capacity, self.head_dim)
        return FullState(key=jnp.zeros(shape, self.dtype), value=jnp.zeros(shape, self.dtype))

    def pending(self, batch: int, nodes: int) -> Pending:
        shape = (batch, self.num_kv_heads, nodes, self.head_dim)
        return Pending(key=jnp.zeros(shape, self.dtype), value=jnp.zeros(shape, self.dtype))

    def verify(
        self,
        state: FullState,
        pending: Pending | None,
        query: Float[Array, "B Q R E"],
        key: Float[Array, "B K R E"],
        value: Float[Array, "B K R E"],
        *,
        slots: Int[Array, "B R"] | None,
        mask: Bool[Array, "B R N"],
        length: Int[Array, "B"],
    ) -> tuple[Float[Array, "B Q R E"], Pending]:
        """Attends from R new nodes to the committed prefix and to the tree slots that `mask` shows.

        Args:
          state: committed entries.
          pending: earlier tree slots, or None when the R nodes are all the slots there are.
          query: of the new nodes, rotated.
          key: likewise.
          value: likewise.
          slots: where the new nodes go in `pending`; ignored when that is None.
          mask: visible slots per new node (ancestors and itself).
          length: cached length per row.
        """
        batch, heads, nodes, dim = query.shape
        grouped = (query * dim**-0.5).reshape(batch, self.num_kv_heads, -1, dim).astype(self.dtype)
        new = Pending(key=key.astype(self.dtype), value=value.astype(self.dtype))
        if pending is not None and slots is not None:
            new = jax.tree.map(lambda buffer, fresh: scatter_rows(buffer, slots, fresh, axis=2), pending, new)
        mask = jnp.tile(mask, (1, heads // self.num_kv_heads, 1))
        capacity = state.key.shape[2]
        branches = [functools.partial(self._attend, size=size) for size in prefix_sizes(capacity)]
        mixed = jax.lax.switch(live_prefix(length, capacity), branches, grouped, state, new, mask, length)
        return mixed.reshape(batch, heads, nodes, dim).astype(query.dtype), new

    def commit(
        self,
        state: FullState,
        pending: Pending,
        path: Int[Array, "B E"],
        length: Int[Array, "B"],
        count: Int[Array, "B"],
    ) -> FullState:
        """One gather and one write per row. All of `path` is written; entries beyond `count` stay garbage.

        `length + path.shape[1]` must not exceed the capacity: the write would be shifted back, silently.
        A row that commits nothing writes its garbage to the very end. As `count` follows from the pass's result,
        this also keeps XLA from moving the write before the pass's reads, for which it would copy the cache.
        """
        width, capacity = path.shape[1], state.key.shape[2]
        start = jnp.where(count > 0, length, capacity - width)

        def write(buffer: Array, fresh: Array) -> Array:
            moved = jnp.take_along_axis(fresh, path[:, None, :, None], axis=2, mode="clip")

            def row(index: Array, buffer: Array) -> Array:
                block = jax.lax.dynamic_slice_in_dim(moved, index, 1, axis=0)
                return jax.lax.dynamic_update_slice(buffer, block, (index, 0, start[index], 0))

            return jax.lax.fori_loop(0, len(buffer), row, buffer, unroll=len(buffer) <= UNROLLED_ROWS)

        return jax.tree.map(write, state, FullState(key=pending.key, value=pending.value))

    def _attend(
        self,
        query: Float[Array, "B K Q E"],
        state: FullState,
        pending: Pending,
        mask: Bool[Array, "B Q N"],
        length: Int[Array, "B"],
        *,
        size: int,
    ) -> Float[Array, "B K Q E"]:
        """Softmax over `size` committed positions and all tree slots; a node always sees itself, so no NaN."""
        dot = functools.partial(jnp.einsum, precision=self.precision, preferred_element_type=jnp.float32)
        cached = jnp.arange(size)[None, None, None, :] < length[:, None, None, None]
        before = jnp.where(cached, dot("bkqe,bkse->bkqs", query, state.key[:, :, :size]), MASKED)
        beside = jnp.where(mask[:, None], dot("bkqe,bkne->bkqn", query, pending.key), MASKED)
        top = jnp.maximum(before.max(-1), beside.max(-1))[..., None]
        before, beside = jnp.exp(before - top), jnp.exp(beside - top)
        mixed = dot("bkqs,bkse->bkqe", before.astype(self.dtype), state.value[:, :, :size])
        mixed += dot("bkqn,bkne->bkqe", beside.astype(self.dtype), pending.value)
        return mixed / (before.sum(-1) + beside.sum(-1))[..., None]
