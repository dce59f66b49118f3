"""A target's configuration from GGUF metadata.

Leaves out: architectures other than llama, qwen2 and qwen3, and rotary scaling (`gguf_rotary.py`).
"""

from __future__ import annotations

import numpy as np

from specdec.checkpoints.gguf_file import GgufFile, Value
from specdec.checkpoints.gguf_rotary import read_rotary
from specdec.errors import ConfigError
from specdec.targets.config import Family, TargetConfig


class Metadata:
    """Typed access to the metadata of one file; every refusal names the key.

    Args:
      file: the opened file.
      architecture: prefix of the model's own keys.
    """

    def __init__(self, file: GgufFile, architecture: str):
        self.file, self.architecture = file, architecture

    def number(self, key: str, default: float | None = None) -> float:
        """The number under `<architecture>.<key>`.

        Raises:
          ConfigError: it is absent and has no default, or is no finite number.
        """
        full = f"{self.architecture}.{key}"
        value = self.file.fields.get(full, default)
        if value is None:
            raise ConfigError(f"{self.file.path}: metadata {full!r} is missing. The file is incomplete.")
        if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
            raise ConfigError(f"{self.file.path}: metadata {full!r} should be a number, came {value!r:.80}.")
        return value

    def count(self, key: str, default: int | None = None) -> int:
        """The positive whole number under `<architecture>.<key>`.

        Raises:
          ConfigError: it is absent and has no default, or is no positive whole number.
        """
        value = self.number(key, default)
        if value != int(value) or not 0 < value < 1 << 31:
            raise ConfigError(
                f"{self.file.path}: metadata '{self.architecture}.{key}' should be a positive whole number, "
                f"came {value!r}."
            )
        return int(value)

    def get(self, key: str) -> Value | None:
        """Whatever lies under `<architecture>.<key>`, or None."""
        return self.file.fields.get(f"{self.architecture}.{key}")


def read_gguf_config(file: GgufFile) -> TargetConfig:
    """Configuration of the model in a GGUF file.

    Args:
      file: the opened file.

    Returns:
      The configuration; its `stop_ids` are the file's end-of-sequence and end-of-turn ids.

    Raises:
      ConfigError: a key is missing or has a value that is not supported; it is named.
    """
    family = _family(file)
    meta = Metadata(file, family.value)
    hidden, heads = meta.count("embedding_length"), meta.count("attention.head_count")
    head_dim = meta.count("attention.key_length", max(hidden // heads, 1))
    kv_heads = meta.count("attention.head_count_kv", heads)
    _refuse_unsupported(meta, head_dim, heads, kv_heads)
    layers = meta.count("block_count")
    if layers > len(file.tensors):
        raise ConfigError(
            f"{file.path}: '{family.value}.block_count' is {layers}, but the file has only {len(file.tensors)} tensors."
        )
    return TargetConfig(
        family=family,
        vocab_size=_vocab_size(meta),
        hidden_size=hidden,
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate_size=meta.count("feed_forward_length"),
        norm_eps=meta.number("attention.layer_norm_rms_epsilon"),
        rotary=read_rotary(meta, head_dim),
        max_positions=meta.count("context_length"),
        tied="output.weight" not in file.tensors,
        qkv_bias="blk.0.attn_q.bias" in file.tensors,
        out_bias="blk.0.attn_output.bias" in file.tensors,
        mlp_bias="blk.0.ffn_down.bias" in file.tensors,
        qk_norm="blk.0.attn_q_norm.weight" in file.tensors,
        stop_ids=tuple(sorted(set(token_ids(file, "eos", "eot", "eom")))),
        bos_id=next(iter(token_ids(file, "bos")), None),
    )


def token_ids(file: GgufFile, *roles: str) -> list[int]:
    """Ids that the metadata gives to roles such as `bos`, `eos`, `eot`; absent ones are left out."""
    found = (file.fields.get(f"tokenizer.ggml.{role}_token_id") for role in roles)
    # llama.cpp writes -1 (as unsigned) for "none".
    return [value for value in found if type(value) is int and 0 <= value < 1 << 31]


def _family(file: GgufFile) -> Family:
    architecture = file.fields.get("general.architecture")
    for family in Family:
        if family.value == architecture:
            return family
    raise ConfigError(
        f"{file.path}: general.architecture is {architecture!r:.80}; supported are "
        f"{', '.join(family.value for family in Family)}."
    )


def _vocab_size(meta: Metadata) -> int:
    embedding = meta.file.tensors.get("token_embd.weight")
    if embedding is not None and len(embedding.shape) == 2:
        return embedding.shape[0]
    return meta.count("vocab_size")


def _refuse_unsupported(meta: Metadata, head_dim: int, heads: int, kv_heads: int) -> None:
    def refuse(key: str, value: object, expected: str) -> ConfigError:
        return ConfigError(
            f"{meta.file.path}: metadata '{meta.architecture}.{key}' is {value!r:.80}, expected {expected}."
        )

    if heads % kv_heads:
        raise refuse("attention.head_count_kv", kv_heads, f"a divisor of {heads} heads")
    if head_dim % 2:
        raise refuse("attention.key_length", head_dim, "an even number")
    if meta.count("attention.value_length", head_dim) != head_dim:
        raise refuse("attention.value_length", meta.get("attention.value_length"), f"key_length ({head_dim})")
    if meta.count("rope.dimension_count", head_dim) != head_dim:
        raise refuse("rope.dimension_count", meta.get("rope.dimension_count"), f"the whole head ({head_dim})")
    if meta.get("expert_count"):
        raise refuse("expert_count", meta.get("expert_count"), "none (mixtures of experts are not supported)")
    window = meta.get("attention.sliding_window")
    if window is not None and (not isinstance(window, int) or 0 < window < meta.count("context_length")):
        raise refuse("attention.sliding_window", window, "none (sliding windows are not supported here)")
