"""Layers shared by decoders. Activations are `[features, columns]`: one column per node of every row.

Keeping the residual stream feature-major lets a product be weights-first all the way, which on CPU is what
makes sixteen columns cost little more than one (docs/performance.md). Leaves out: attention (`specdec.cache`).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def linear(
    weight: Float[Array, "O I"],
    x: Float[Array, "I M"],
    bias: Float[Array, "O"] | None,
    precision: jax.lax.Precision,
) -> Float[Array, "O M"]:
    """`weight @ x (+ bias)`, accumulated in float32, in the dtype of `x`."""
    y = jnp.dot(weight, x, precision=precision, preferred_element_type=jnp.float32)
    if bias is not None:
        y = y + bias.astype(jnp.float32)[:, None]
    return y.astype(x.dtype)


def rms_norm(x: Float[Array, "H M"], weight: Float[Array, "H"], eps: float, axis: int = 0) -> Float[Array, "H M"]:
    """`x / sqrt(mean(x^2) + eps) * weight` over `axis`, computed in float32."""
    wide = x.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(jnp.square(wide), axis=axis, keepdims=True) + jnp.float32(eps))
    shape = [1] * x.ndim
    shape[axis] = -1
    return (wide * scale * weight.astype(jnp.float32).reshape(shape)).astype(x.dtype)


def gated_mlp(
    gate_up: Float[Array, "G H"],
    down: Float[Array, "H F"],
    x: Float[Array, "H M"],
    gate_up_bias: Float[Array, "G"] | None,
    down_bias: Float[Array, "H"] | None,
    precision: jax.lax.Precision,
) -> Float[Array, "H M"]:
    """`down (silu(gate x) * up x)` with gate and up stored as one matrix, gate rows first."""
    gate, up = jnp.split(linear(gate_up, x, gate_up_bias, precision), 2, axis=0)
    return linear(down, jax.nn.silu(gate) * up, down_bias, precision)
