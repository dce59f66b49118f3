"""Rotary settings from a Hugging Face config, older (`rope_scaling`) or newer (`rope_parameters`).

References:
  Peng et al., "YaRN: Efficient Context Window Extension of Large Language Models", 2023, sections 3.2-3.4.

Leaves out: rules whose frequencies change with the length of the text (dynamic, longrope).
"""

from __future__ import annotations

import math

from specdec.checkpoints.json_file import JsonObject
from specdec.errors import ConfigError
from specdec.targets.config import RotaryConfig, RotaryKind

_KEYS = ("rope_parameters", "rope_scaling")


def read_rotary(config: JsonObject, max_positions: int) -> RotaryConfig:
    """Rotary settings of a model.

    Args:
      config: the model's `config.json`.
      max_positions: its `max_position_embeddings`.

    Returns:
      The settings.

    Raises:
      ConfigError: the kind of scaling is not supported, or a key it needs is missing; the key is named.
    """
    found = [(key, inner) for key in _KEYS if (inner := config.inner(key))]
    _, rope = found[0] if found else ("", JsonObject(config.where, {}))
    if "full_attention" in rope.values:
        rope = rope.inner("full_attention") or JsonObject(config.where, {})
    name = rope.get("rope_type", rope.get("type", "default"))
    if name not in {kind.value for kind in RotaryKind}:
        key = "rope_type" if "rope_type" in rope.values else "type"
        raise rope.refuse(key, f"one of {', '.join(kind.value for kind in RotaryKind)}")
    kind = RotaryKind(name)
    theta = rope.number("rope_theta", config.number("rope_theta", 10000.0))
    if theta <= 1.0:
        raise ConfigError(f"{config.where}: 'rope_theta' is {theta}, expected above 1.")
    partial = rope.number("partial_rotary_factor", config.number("partial_rotary_factor", 1.0))
    if partial != 1.0:
        raise ConfigError(f"{config.where}: 'partial_rotary_factor' is {partial}, only 1 is supported.")
    if kind is RotaryKind.DEFAULT:
        return RotaryConfig(theta=theta)
    # Hugging Face lets a top-level value win over the nested one, and falls back to the whole context.
    original = config.count(
        "original_max_position_embeddings", rope.count("original_max_position_embeddings", max_positions)
    )
    if kind is RotaryKind.YARN:
        return _yarn(rope, theta, original, max_positions)
    factor = _factor(rope, None)
    if kind is RotaryKind.LINEAR:
        return RotaryConfig(theta=theta, kind=kind, factor=factor)
    low, high = rope.number("low_freq_factor"), rope.number("high_freq_factor")
    if not 0 < low < high:
        raise rope.refuse("high_freq_factor", f"more than low_freq_factor ({low})")
    return RotaryConfig(theta, kind, factor, low, high, original)


def _yarn(rope: JsonObject, theta: float, original: int, max_positions: int) -> RotaryConfig:
    factor = _factor(rope, max_positions / original)
    attention = rope.get("attention_factor")
    numerator, denominator = rope.number("mscale", 0.0), rope.number("mscale_all_dim", 0.0)
    if attention is not None:
        attention = rope.number("attention_factor")
    elif numerator and denominator:
        attention = _magnitude(factor, numerator) / _magnitude(factor, denominator)
    return RotaryConfig(
        theta=theta,
        kind=RotaryKind.YARN,
        factor=factor,
        original_max_positions=original,
        beta_fast=rope.number("beta_fast", 32.0),
        beta_slow=rope.number("beta_slow", 1.0),
        attention_factor=attention,
        truncate=rope.switch("truncate", True),
    )


def _magnitude(factor: float, scale: float) -> float:
    return 0.1 * scale * math.log(factor) + 1.0


def _factor(rope: JsonObject, default: float | None) -> float:
    factor = rope.number("factor", default)
    if factor < 1.0:
        raise rope.refuse("factor", "a number of at least 1")
    return factor
