"""What a decoder-only target looks like: sizes, rotary settings and switches, as frozen hashable values.

Families differ only in these values; the pass itself is written once in `decoder.py`.
Leaves out: reading the values from a file (`specdec.checkpoints.hf_config`, `specdec.checkpoints.gguf`).
"""

from __future__ import annotations

import dataclasses
import enum


class Family(enum.Enum):
    """Model families by the name Hugging Face gives them in `model_type`."""

    LLAMA = "llama"
    QWEN2 = "qwen2"
    QWEN3 = "qwen3"


class RotaryKind(enum.Enum):
    """How rotary frequencies are rescaled for long contexts (`rope_type` in Hugging Face terms)."""

    DEFAULT = "default"
    LINEAR = "linear"
    LLAMA3 = "llama3"
    YARN = "yarn"


@dataclasses.dataclass(frozen=True)
class RotaryConfig:
    """Rotary position settings; fields unused by a kind keep their defaults.

    Args:
      theta: base of the geometric frequency series.
      kind: rescaling rule.
      factor: context extension factor (linear, llama3, yarn).
      low_freq_factor, high_freq_factor: llama3 band limits.
      original_max_positions: context length before extension (llama3, yarn); 0 when unused.
      beta_fast, beta_slow: yarn ramp limits.
      attention_factor: yarn cos/sin multiplier; `None` means derived from `factor` (0.1 ln(factor) + 1).
      truncate: whether yarn rounds its ramp limits to whole dimensions.
    """

    theta: float = 10000.0
    kind: RotaryKind = RotaryKind.DEFAULT
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_positions: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    truncate: bool = True


@dataclasses.dataclass(frozen=True)
class TargetConfig:
    """Shape and switches of one decoder-only transformer.

    Args:
      family: which family the checkpoint belongs to (names its tensors).
      vocab_size: rows of the embedding, padding rows included.
      hidden_size: width of the residual stream (H).
      num_layers: decoder layers.
      num_heads: query heads (Q).
      num_kv_heads: key/value heads (K); divides `num_heads`.
      head_dim: channels per head (not necessarily hidden_size / num_heads).
      intermediate_size: width of the gated MLP.
      norm_eps: epsilon of every RMS norm.
      rotary: rotary settings.
      max_positions: largest context the model was made for.
      tied: the output head is the embedding table.
      qkv_bias, out_bias, mlp_bias: biases on the named projections.
      qk_norm: per-head RMS norm on queries and keys before rotation (Qwen3).
      stop_ids: end-of-turn ids named by the model's own configuration (config and generation config).
      bos_id: beginning-of-sequence id, if the model has one.
    """

    family: Family
    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    norm_eps: float = 1e-6
    rotary: RotaryConfig = RotaryConfig()
    max_positions: int = 2048
    tied: bool = False
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    stop_ids: tuple[int, ...] = ()
    bos_id: int | None = None

    @property
    def queries_per_kv(self) -> int:
        """Query heads that share one key/value head (G)."""
        return self.num_heads // self.num_kv_heads
