"""Rotary position embedding in rotate-half order, with the context extensions that checkpoints use.

Reference: Su et al., "RoFormer", 2021 (arXiv 2104.09864), section 3.4; Peng et al., "YaRN", 2023 (arXiv 2309.00071),
section 3; the llama3 rule is that of the Llama 3.1 release. Leaves out: multi-section and partial rotation.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from specdec.targets.config import RotaryConfig, RotaryKind


def inverse_frequencies(config: RotaryConfig, head_dim: int) -> tuple[np.ndarray, float]:
    """Angular frequencies per channel pair, and the factor on cos and sin.

    Args:
      config: rotary settings.
      head_dim: channels per head (even).

    Returns:
      float64 `[head_dim / 2]` and the attention factor (1 except for yarn).
    """
    exponent = np.arange(0, head_dim, 2, dtype=np.float64) / head_dim
    inverse = config.theta**-exponent
    match config.kind:
        case RotaryKind.DEFAULT:
            return inverse, 1.0
        case RotaryKind.LINEAR:
            return inverse / config.factor, 1.0
        case RotaryKind.LLAMA3:
            return _llama3(config, inverse), 1.0
        case RotaryKind.YARN:
            return _yarn(config, inverse, head_dim)


def _llama3(config: RotaryConfig, inverse: np.ndarray) -> np.ndarray:
    turns = config.original_max_positions * inverse / (2 * math.pi)
    smooth = (turns - config.low_freq_factor) / (config.high_freq_factor - config.low_freq_factor)
    smooth = np.clip(smooth, 0.0, 1.0)
    return (1 - smooth) * inverse / config.factor + smooth * inverse


def _yarn(config: RotaryConfig, inverse: np.ndarray, head_dim: int) -> tuple[np.ndarray, float]:
    def dimension(turns: float) -> float:
        period = config.original_max_positions / (turns * 2 * math.pi)
        return head_dim * math.log(period) / (2 * math.log(config.theta))

    low, high = dimension(config.beta_fast), dimension(config.beta_slow)
    if config.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    if low == high:
        high += 0.001
    ramp = np.clip((np.arange(head_dim // 2) - low) / (high - low), 0.0, 1.0)
    mixed = inverse / config.factor * ramp + inverse * (1 - ramp)
    factor = config.attention_factor
    if factor is None:
        factor = 0.1 * math.log(config.factor) + 1.0 if config.factor > 1 else 1.0
    return mixed, factor


def rotation(config: RotaryConfig, head_dim: int, position: Int[Array, "*shape"]) -> tuple[Array, Array]:
    """Cosine and sine of every position, float32 `[head_dim / 2, *shape]`.

    The angle is computed per call: no table, hence no limit on the position.
    """
    inverse, factor = inverse_frequencies(config, head_dim)
    column = jnp.asarray(inverse, jnp.float32).reshape(-1, *[1] * position.ndim)
    angle = column * position.astype(jnp.float32)[None]
    return jnp.cos(angle) * jnp.float32(factor), jnp.sin(angle) * jnp.float32(factor)


def rotate(x: Float[Array, "heads E *shape"], cos: Array, sin: Array) -> Float[Array, "heads E *shape"]:
    """Rotates channel i with channel i + E/2 (rotate-half order), in float32, back to the dtype of `x`."""
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=1)
    turned = jnp.concatenate([first * cos[None] - second * sin[None], second * cos[None] + first * sin[None]], axis=1)
    return turned.astype(x.dtype)
