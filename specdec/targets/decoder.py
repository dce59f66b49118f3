"""The dense decoder-only transformer behind the Llama, Qwen2 and Qwen3 families.

One pass serves everything: a prompt chunk is a chain, plain decoding is a tree of one node, and a drafter that
grows a tree calls the same pass for a few nodes at a time.
Leaves out: recurrent and sliding-window layers, mixture-of-experts blocks.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from specdec.backends import Backend, cpu
from specdec.cache import FullAttention
from specdec.targets.config import TargetConfig
from specdec.targets.layers import gated_mlp, linear, rms_norm
from specdec.targets.params import LayerParams, TargetParams
from specdec.targets.rotary import rotate, rotation
from specdec.tree import Tree
from specdec.values import Acceptance, PromptChunk, Readout, Verified

CPU = cpu.make()


class DecoderState(flax.struct.PyTreeNode):
    """Committed entries of every layer, and how many there are per row."""

    layers: tuple[Any, ...]
    length: Int[Array, "B"]


@dataclasses.dataclass(frozen=True)
class Decoder:
    """A decoder-only target.

    Args:
      config: sizes and switches.
      backend: number formats and product precision.
      features: layers whose output rows (the residual stream after the layer, before any norm) are captured, in
        this order. The last layer counts like the others: its row is taken before the final norm.
      vocab_limit: ids at or above it are never produced; 0 means the whole vocabulary.
    """

    config: TargetConfig
    backend: Backend = CPU
    features: tuple[int, ...] = ()
    vocab_limit: int = 0

    supports_trees = True

    def __post_init__(self) -> None:
        limit = self.vocab_limit or self.config.vocab_size
        object.__setattr__(self, "vocab_limit", min(limit, self.config.vocab_size))

    @property
    def hidden_size(self) -> int:
        """Width of the residual stream (H)."""
        return self.config.hidden_size

    @property
    def max_positions(self) -> int:
        """Largest context the model was made for."""
        return self.config.max_positions

    @property
    def kinds(self) -> tuple[FullAttention, ...]:
        """The cache kind of every layer."""
        backend = self.backend
        kind = FullAttention(self.config.num_kv_heads, self.config.head_dim, backend.cache_dtype, backend.precision)
        return (kind,) * self.config.num_layers

    def init(self, batch: int, capacity: int) -> DecoderState:
        return DecoderState(
            layers=tuple(kind.init(batch, capacity) for kind in self.kinds),
            length=jnp.zeros((batch,), jnp.int32),
        )

    def prefill(
        self,
        params: TargetParams,
        state: DecoderState,
        tokens: Int[Array, "B S"],
        count: Int[Array, "B"],
        total: Int[Array, "B"],
    ) -> tuple[DecoderState, PromptChunk]:
        batch, size = tokens.shape
        slots = jnp.arange(size, dtype=jnp.int32)
        causal = jnp.broadcast_to(slots[:, None] >= slots[None, :], (batch, size, size))
        positions = state.length[:, None] + slots[None, :]
        hidden, features, pending = self.run(params, state, tokens, positions, causal)
        path = jnp.broadcast_to(slots[None, :], (batch, size))
        # A pass that went wrong commits nothing. It also makes the write wait for the pass: see `FullAttention.commit`.
        count = jnp.where(jnp.isnan(hidden).any((1, 2)), 0, count)
        chunk = PromptChunk(tokens, state.length, count, total, hidden, features)
        return self.append(state, pending, path, count), chunk

    def verify(self, params: TargetParams, state: DecoderState, tree: Tree, sizes: tuple[int, ...] = ()) -> Verified:
        """One pass over a tree.

        Args:
          params: weights.
          state: committed entries; read only.
          tree: N slots.
          sizes: widths smaller than N that may be used instead when the valid slots fit (ascending).
        """
        sizes = tuple(size for size in sizes if size < tree.num_nodes)
        if not sizes:
            return self._verify(params, state, tree, tree.num_nodes)
        used = jnp.where(tree.valid, jnp.arange(1, tree.num_nodes + 1), 0).max()
        index = (used > jnp.asarray(sizes)).sum()
        branches = [functools.partial(self._verify, size=size) for size in (*sizes, tree.num_nodes)]
        return jax.lax.switch(index, branches, params, state, tree)

    def _verify(self, params: TargetParams, state: DecoderState, tree: Tree, size: int) -> Verified:
        """A pass over the first `size` slots, its rows padded to all of them."""
        slots = tree.num_nodes
        tree = tree.truncate(size)
        positions = state.length[:, None] + tree.depth
        hidden, features, pending = self.run(params, state, tree.token, positions, tree.ancestors())
        verified = Verified(self.logits(params, hidden), hidden, features, pending)
        if size == slots:
            return verified

        def pad(leaf: Array, axis: int) -> Array:
            widths = [(0, 0)] * leaf.ndim
            widths[axis] = (0, slots - size)
            return jnp.pad(leaf, widths)

        entries = tuple(
            jax.tree.map(functools.partial(pad, axis=kind.node_axis), entry)
            for kind, entry in zip(self.kinds, pending, strict=True)
        )
        return jax.tree.map(functools.partial(pad, axis=1), verified.replace(pending=())).replace(pending=entries)

    def commit(self, state: DecoderState, pending: tuple[Any, ...], acceptance: Acceptance) -> DecoderState:
        return self.append(state, pending, acceptance.path, acceptance.committed)

    def append(
        self, state: DecoderState, pending: tuple[Any, ...], path: Int[Array, "B E"], count: Int[Array, "B"]
    ) -> DecoderState:
        """Commits the first `count` slots of `path` per row."""
        layers = tuple(
            kind.commit(layer, entries, path, state.length, count)
            for kind, layer, entries in zip(self.kinds, state.layers, pending, strict=True)
        )
        return DecoderState(layers=layers, length=state.length + count)

    def pending(self, batch: int, nodes: int) -> tuple[Any, ...]:
        """Empty per-layer buffers for `nodes` tree slots, for callers that fill them a few nodes at a time."""
        return tuple(kind.pending(batch, nodes) for kind in self.kinds)

    def readout(self, params: TargetParams) -> Readout:
        head = params.embed if params.head is None else params.head
        return Readout(embedding=params.embed, head=head, vocab_limit=self.vocab_limit)

    def logits(self, params: TargetParams, hidden: Float[Array, "B N H"]) -> Float[Array, "B N V"]:
        head = params.embed if params.head is None else params.head
        # Rows first here: consumers read along the vocabulary, and transposing costs more than the product. The
        # barrier keeps XLA from folding the transposed rows back into it.
        hidden = jax.lax.optimization_barrier(hidden)
        logits = jnp.einsum(
            "bnh,vh->bnv", hidden, head, precision=self.backend.precision, preferred_element_type=jnp.float32
        )
        if self.vocab_limit < head.shape[0]:
            logits = jnp.where(jnp.arange(head.shape[0]) < self.vocab_limit, logits, -jnp.inf)
        return logits

    def run(
        self,
        params: TargetParams,
        state: DecoderState,
        tokens: Int[Array, "B R"],
        positions: Int[Array, "B R"],
        mask: Bool[Array, "B R N"],
        pending: tuple[Any, ...] | None = None,
        slots: Int[Array, "B R"] | None = None,
    ) -> tuple[Float[Array, "B R H"], Float[Array, "B R F"] | None, tuple[Any, ...]]:
        """One pass over R nodes that see the committed prefix and the tree slots in `mask`.

        Args:
          params: weights.
          state: committed entries; read only.
          tokens: ids of the nodes.
          positions: absolute positions (cached length + depth).
          mask: visible tree slots per node, itself included.
          pending: buffers that hold the other slots, or None when the R nodes are all slots.
          slots: where the R nodes go in `pending`.

        Returns:
          Final-norm rows, captured features (None if none were asked for), pending entries per layer.
        """
        batch, nodes = tokens.shape
        config = self.config
        cos, sin = rotation(config.rotary, config.head_dim, positions)
        x = params.embed[tokens.reshape(-1)].T.astype(self.backend.dtype)
        captured, entries = {}, []
        for index, (layer, kind) in enumerate(zip(params.layers, self.kinds, strict=True)):
            query, key, value = self._project(layer, x, batch, nodes, cos, sin)
            mixed, new = kind.verify(
                state.layers[index],
                None if pending is None else pending[index],
                query,
                key,
                value,
                slots=slots,
                mask=mask,
                length=state.length,
            )
            # [B, Q, R, E] -> [Q * E, B * R]
            columns = jnp.transpose(mixed, (1, 3, 0, 2)).reshape(-1, batch * nodes)
            x = x + linear(layer.out, columns, layer.out_bias, self.backend.precision)
            normed = rms_norm(x, layer.mlp_norm, config.norm_eps)
            x = x + gated_mlp(
                layer.gate_up, layer.down, normed, layer.gate_up_bias, layer.down_bias, self.backend.precision
            )
            entries.append(new)
            if index in self.features:
                captured[index] = x
        hidden = rms_norm(x, params.norm, config.norm_eps)
        features = None
        if self.features:
            features = jnp.concatenate([captured[i] for i in self.features], axis=0).T.reshape(batch, nodes, -1)
        return hidden.T.reshape(batch, nodes, -1), features, tuple(entries)

    def _project(
        self, layer: LayerParams, x: Float[Array, "H M"], batch: int, nodes: int, cos: Array, sin: Array
    ) -> tuple[Array, Array, Array]:
        """Rotated queries and keys, and values, as `[B, heads, R, head_dim]`."""
        config = self.config
        normed = rms_norm(x, layer.attn_norm, config.norm_eps)
        fused = linear(layer.qkv, normed, layer.qkv_bias, self.backend.precision)
        heads = fused.reshape(-1, config.head_dim, batch, nodes)
        last = config.num_heads + config.num_kv_heads
        query, key, value = heads[: config.num_heads], heads[config.num_heads : last], heads[last:]
        if layer.q_norm is not None and layer.k_norm is not None:
            query = rms_norm(query, layer.q_norm, config.norm_eps, axis=1)
            key = rms_norm(key, layer.k_norm, config.norm_eps, axis=1)
        query, key = rotate(query, cos, sin), rotate(key, cos, sin)
        order = (2, 0, 3, 1)
        return jnp.transpose(query, order), jnp.transpose(key, order), jnp.transpose(value, order)
