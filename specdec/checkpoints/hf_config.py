"""A target's configuration from a Hugging Face folder: `config.json` and `generation_config.json`.

Absent keys take the defaults of the family's configuration class in transformers.
Leaves out: rotary scaling (`hf_rotary.py`), drafter configurations, and families beyond llama, qwen2, qwen3.
"""

from __future__ import annotations

from pathlib import Path

from specdec.checkpoints.hf_rotary import read_rotary
from specdec.checkpoints.json_file import JsonObject
from specdec.errors import ConfigError
from specdec.targets.config import Family, TargetConfig

CONFIG = "config.json"
GENERATION = "generation_config.json"
_FLOAT8_METHODS = ("fp8", "fbgemm_fp8")


def read_hf_config(folder: Path) -> TargetConfig:
    """Configuration of the model in a Hugging Face folder.

    Args:
      folder: holds `config.json` and perhaps `generation_config.json`.

    Returns:
      The configuration; `stop_ids` unites the end-of-sequence ids of both files.

    Raises:
      ConfigError: a file or key is missing or has a value that is not supported; it is named.
    """
    config = JsonObject.read(folder / CONFIG)
    family = _family(config)
    qwen = family is not Family.LLAMA
    _refuse_unsupported(config, qwen)
    hidden, heads = config.count("hidden_size"), config.count("num_attention_heads")
    kv_heads = config.count("num_key_value_heads", heads)
    head_dim = config.count("head_dim", 128 if family is Family.QWEN3 else max(hidden // heads, 1))
    if heads % kv_heads:
        raise config.refuse("num_key_value_heads", f"a divisor of num_attention_heads ({heads})")
    if head_dim % 2:
        raise ConfigError(f"{config.where}: 'head_dim' is {head_dim}, expected an even number.")
    max_positions = config.count("max_position_embeddings", 32768 if qwen else 2048)
    _refuse_windows(config, qwen, max_positions)
    bias = family is not Family.QWEN2 and config.switch("attention_bias", False)
    return TargetConfig(
        family=family,
        vocab_size=config.count("vocab_size"),
        hidden_size=hidden,
        num_layers=config.count("num_hidden_layers"),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate_size=config.count("intermediate_size"),
        norm_eps=config.number("rms_norm_eps", 1e-6),
        rotary=read_rotary(config, max_positions),
        max_positions=max_positions,
        tied=config.switch("tie_word_embeddings", False),
        # Qwen2 always has these three biases and no key that says so.
        qkv_bias=bias or family is Family.QWEN2,
        out_bias=bias,
        mlp_bias=family is Family.LLAMA and config.switch("mlp_bias", False),
        qk_norm=family is Family.QWEN3,
        stop_ids=_stop_ids(config, folder / GENERATION),
        bos_id=next(iter(config.ids("bos_token_id")), None),
    )


def float8_block(folder: Path) -> tuple[int, int]:
    """Rows and columns that share one float8 scale: `quantization_config.weight_block_size`, or 128 x 128.

    Raises:
      ConfigError: the key holds anything but two positive integers.
    """
    quantization = JsonObject.read(folder / CONFIG).inner("quantization_config")
    block = quantization.get("weight_block_size", [128, 128]) if quantization else [128, 128]
    if not isinstance(block, list) or len(block) != 2 or any(type(n) is not int or n < 1 for n in block):
        raise ConfigError(f"{folder / CONFIG}: 'weight_block_size' is {block!r:.80}, expected two positive integers.")
    return block[0], block[1]


def _stop_ids(config: JsonObject, generation: Path) -> tuple[int, ...]:
    found = set(config.ids("eos_token_id"))
    if generation.is_file():
        found.update(JsonObject.read(generation).ids("eos_token_id"))
    return tuple(sorted(found))


def _family(config: JsonObject) -> Family:
    for family in Family:
        if config.get("model_type") == family.value:
            return family
    raise config.refuse("model_type", f"one of {', '.join(family.value for family in Family)}")


def _refuse_unsupported(config: JsonObject, qwen: bool) -> None:
    if config.get("hidden_act", "silu") not in ("silu", "swish"):
        raise config.refuse("hidden_act", "'silu'")
    quantization = config.inner("quantization_config")
    if quantization is None:
        return
    method = quantization.get("quant_method")
    float8 = method == "compressed-tensors" and quantization.get("format") == "float-quantized"
    if method not in _FLOAT8_METHODS and not float8:
        raise quantization.refuse(
            "quant_method",
            "float8 ('fp8', 'fbgemm_fp8', or 'compressed-tensors' of format 'float-quantized')",
        )


def _refuse_windows(config: JsonObject, qwen: bool, max_positions: int) -> None:
    kinds = config.get("layer_types", [])
    if not isinstance(kinds, list) or any(kind not in ("full_attention", "sliding_attention") for kind in kinds):
        raise config.refuse("layer_types", "a list of 'full_attention'")
    used = "sliding_attention" in kinds
    if qwen and not kinds:
        used = config.count("num_hidden_layers") > config.number("max_window_layers", 28)
    switched_on = config.switch("use_sliding_window", False) if qwen else used
    # A window at least as long as the context never hides anything.
    if switched_on and used and config.get("sliding_window") and config.count("sliding_window") < max_positions:
        raise config.refuse("sliding_window", "null: sliding windows are not supported in target models")
