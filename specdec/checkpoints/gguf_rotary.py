"""Rotary settings from GGUF metadata and from the factor tensor that stands for llama3 scaling.

The llama3 rule is not in the metadata: the converter evaluates it and stores one divisor per frequency in
`rope_freqs.weight`. The rule's settings are recovered from those numbers and checked against all of them.
Leaves out: long-context factor pairs (longrope) and temperature scaling of attention.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from specdec.errors import ConfigError
from specdec.targets.config import RotaryConfig, RotaryKind

if TYPE_CHECKING:
    from specdec.checkpoints.gguf_config import Metadata

_FACTORS = "rope_freqs.weight"
_TOLERANCE = 1e-4


def read_rotary(meta: Metadata, head_dim: int) -> RotaryConfig:
    """Rotary settings of a GGUF file.

    Args:
      meta: its metadata.
      head_dim: channels per head.

    Returns:
      The settings in Hugging Face terms.

    Raises:
      ConfigError: the scaling is of an unknown kind or its factors follow no known rule.
    """
    theta = meta.number("rope.freq_base", 10000.0)
    if theta <= 1.0:
        raise ConfigError(f"{meta.file.path}: '{meta.architecture}.rope.freq_base' is {theta}, expected above 1.")
    kind = meta.get("rope.scaling.type")
    factor = meta.number("rope.scaling.factor", meta.number("rope.scale_linear", 1.0))
    if factor < 1.0:
        raise ConfigError(f"{meta.file.path}: '{meta.architecture}.rope.scaling.factor' is {factor}, expected >= 1.")
    if _FACTORS in meta.file.tensors:
        return _llama3(meta, theta, head_dim)
    if kind == "yarn":
        return _yarn(meta, theta, factor)
    if kind == "linear" or (kind is None and factor > 1.0):
        return RotaryConfig(theta=theta, kind=RotaryKind.LINEAR, factor=factor)
    if kind in (None, "none"):
        return RotaryConfig(theta=theta)
    raise ConfigError(
        f"{meta.file.path}: '{meta.architecture}.rope.scaling.type' is {kind!r:.80}; "
        "supported are none, linear and yarn."
    )


def _yarn(meta: Metadata, theta: float, factor: float) -> RotaryConfig:
    scale = meta.number("rope.scaling.attn_factor", meta.number("rope.scaling.yarn_attn_factor", 1.0))
    return RotaryConfig(
        theta=theta,
        kind=RotaryKind.YARN,
        factor=factor,
        original_max_positions=meta.count("rope.scaling.original_context_length"),
        beta_fast=meta.number("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=meta.number("rope.scaling.yarn_beta_slow", 1.0),
        # llama.cpp multiplies the derived factor by this one.
        attention_factor=None if scale == 1.0 else scale * (1.0 + 0.1 * math.log(factor)),
    )


def _llama3(meta: Metadata, theta: float, head_dim: int) -> RotaryConfig:
    from specdec.checkpoints.gguf import dequantise

    stored = meta.file.tensors[_FACTORS]
    if stored.kind not in ("F32", "F16") or math.prod(stored.shape) != head_dim // 2:
        raise ConfigError(
            f"{meta.file.path}: {_FACTORS} is {stored.kind} of shape {stored.shape}, expected {head_dim // 2} floats."
        )
    factors = dequantise(meta.file, _FACTORS).reshape(-1).astype(np.float64)
    if np.isfinite(factors).all() and (factors >= 1.0 - _TOLERANCE).all():
        lengths = 2 * math.pi * theta ** (np.arange(0, head_dim, 2) / head_dim)
        if np.abs(factors - 1.0).max() < _TOLERANCE:
            return RotaryConfig(theta=theta)
        for candidate in _candidates(factors, lengths, theta):
            if np.allclose(llama3_divisors(candidate, lengths), factors, rtol=_TOLERANCE):
                return candidate
    raise ConfigError(
        f"{meta.file.path}: {_FACTORS} follows no llama3 scaling rule (first and last divisor "
        f"{factors[0]:.4g}, {factors[-1]:.4g}); other frequency factors are not supported."
    )


def llama3_divisors(rotary: RotaryConfig, lengths: np.ndarray) -> np.ndarray:
    """What the llama3 rule divides each frequency by.

    Args:
      rotary: settings of kind llama3.
      lengths: `[head_dim / 2]` wavelengths in positions, before scaling.

    Returns:
      `[head_dim / 2]` divisors between 1 and `factor`.
    """
    low, high = rotary.low_freq_factor, rotary.high_freq_factor
    smooth = np.clip((rotary.original_max_positions / lengths - low) / (high - low), 0.0, 1.0)
    return 1.0 / ((1.0 - smooth) / rotary.factor + smooth)


def _candidates(factors: np.ndarray, lengths: np.ndarray, theta: float) -> Iterator[RotaryConfig]:
    factor = float(round(factors.max(), 4))

    def make(high: float, original: int) -> RotaryConfig:
        return RotaryConfig(theta, RotaryKind.LLAMA3, factor, 1.0, high, original)

    # Published llama3 settings first, so that rounding in the stored divisors does not move them.
    for exponent in range(13, 21):
        yield make(4.0, 1 << exponent)
    for exponent in range(12, 4, -1):
        yield make(4.0, 1 << exponent)
    # The rule has two free numbers once the low band limit is set to 1: fit a line through the ramp.
    smooth = (1.0 / factors - 1.0 / factor) / (1.0 - 1.0 / factor)
    ramp = (smooth > _TOLERANCE) & (smooth < 1.0 - _TOLERANCE)
    if ramp.sum() >= 2:
        slope, offset = np.polyfit(1.0 / lengths[ramp], smooth[ramp], 1)
        if offset < -1e-6 and slope > 0:
            yield make(1.0 - 1.0 / offset, round(-slope / offset))
