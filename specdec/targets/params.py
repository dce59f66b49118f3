"""Weights of a decoder as explicit pytrees, projections kept `[out, in]` and fused where they share an input.

Leaves out: file formats (`specdec.checkpoints`) and the arithmetic (`decoder.py`).
"""

from __future__ import annotations

import flax.struct
import jax


class LayerParams(flax.struct.PyTreeNode):
    """One decoder layer. `None` marks what the configuration switches off.

    Args:
      attn_norm: `[H]` RMS-norm weight before attention.
      qkv: `[(Q + 2K) * head_dim, H]`, rows ordered queries, keys, values, each heads-major.
      qkv_bias: `[(Q + 2K) * head_dim]` or None.
      q_norm, k_norm: `[head_dim]` or None.
      out: `[H, Q * head_dim]`.
      out_bias: `[H]` or None.
      mlp_norm: `[H]` RMS-norm weight before the MLP.
      gate_up: `[2 * intermediate, H]`, gate rows first.
      gate_up_bias: `[2 * intermediate]` or None.
      down: `[H, intermediate]`.
      down_bias: `[H]` or None.
    """

    attn_norm: jax.Array
    qkv: jax.Array
    out: jax.Array
    mlp_norm: jax.Array
    gate_up: jax.Array
    down: jax.Array
    qkv_bias: jax.Array | None = None
    q_norm: jax.Array | None = None
    k_norm: jax.Array | None = None
    out_bias: jax.Array | None = None
    gate_up_bias: jax.Array | None = None
    down_bias: jax.Array | None = None


class TargetParams(flax.struct.PyTreeNode):
    """A whole decoder.

    Args:
      embed: `[V, H]` token embedding.
      layers: one `LayerParams` per layer (kept apart: stacking them costs a copy per step on CPU).
      norm: `[H]` final RMS-norm weight.
      head: `[V, H]` output head, or None when tied to `embed`.
    """

    embed: jax.Array
    layers: tuple[LayerParams, ...]
    norm: jax.Array
    head: jax.Array | None = None
