"""Tiny random models written as safetensors and as GGUF, by code independent of the readers under test.

Leaves out: tokenizers (`toy_tokenizers.py`).
"""

import json
from pathlib import Path

import gguf
import ml_dtypes
import numpy as np

CODES = {
    np.dtype(np.float32): "F32",
    np.dtype(np.float16): "F16",
    np.dtype(ml_dtypes.bfloat16): "BF16",
    np.dtype(ml_dtypes.float8_e4m3fn): "F8_E4M3",
    np.dtype(np.int8): "I8",
}


def config(model_type: str = "llama", **changes) -> dict:
    """Hugging Face config of a two-layer model with grouped heads whose size is not width / heads."""
    values = {
        "model_type": model_type,
        "vocab_size": 40,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size": 64,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "hidden_act": "silu",
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return {**values, **changes}


def tensors(config: dict, seed: int = 0) -> dict[str, np.ndarray]:
    """Random weights under Hugging Face names."""
    draw = np.random.default_rng(seed)

    def make(*shape: int) -> np.ndarray:
        return draw.standard_normal(shape).astype(np.float32)

    width, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    found = {"model.embed_tokens.weight": make(config["vocab_size"], width), "model.norm.weight": make(width)}
    if not config["tie_word_embeddings"]:
        found["lm_head.weight"] = make(config["vocab_size"], width)
    qkv_bias = config["model_type"] == "qwen2" or config.get("attention_bias", False)
    for index in range(config["num_hidden_layers"]):
        name = f"model.layers.{index}."
        found[name + "input_layernorm.weight"] = make(width)
        found[name + "post_attention_layernorm.weight"] = make(width)
        for letter, rows in (("q", queries), ("k", keys), ("v", keys)):
            found[f"{name}self_attn.{letter}_proj.weight"] = make(rows, width)
            if qkv_bias:
                found[f"{name}self_attn.{letter}_proj.bias"] = make(rows)
        found[name + "self_attn.o_proj.weight"] = make(width, queries)
        if config["model_type"] != "qwen2" and config.get("attention_bias", False):
            found[name + "self_attn.o_proj.bias"] = make(width)
        if config["model_type"] == "qwen3":
            found[name + "self_attn.q_norm.weight"] = make(head)
            found[name + "self_attn.k_norm.weight"] = make(head)
        for part in ("gate_proj", "up_proj"):
            found[f"{name}mlp.{part}.weight"] = make(inner, width)
        found[name + "mlp.down_proj.weight"] = make(width, inner)
        if config.get("mlp_bias"):
            for part, rows in (("gate_proj", inner), ("up_proj", inner), ("down_proj", width)):
                found[f"{name}mlp.{part}.bias"] = make(rows)
    return found


def write_safetensors(path: Path, values: dict[str, np.ndarray]) -> None:
    """The format written by hand: the reference package has no bfloat16 or float8 for NumPy."""
    header, blobs, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name, value in values.items():
        blob = np.ascontiguousarray(value).tobytes()
        header[name] = {
            "dtype": CODES[value.dtype],
            "shape": list(value.shape),
            "data_offsets": [at, at + len(blob)],
        }
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blobs))


def write_config(folder: Path, config: dict, generation: dict | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    return folder


def write_folder(folder: Path, config: dict, values: dict[str, np.ndarray], shards: int = 1) -> Path:
    """A Hugging Face folder; with several shards an index is written."""
    write_config(folder, config)
    if shards == 1:
        write_safetensors(folder / "model.safetensors", values)
        return folder
    names, weight_map = list(values), {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = names[shard::shards]
        write_safetensors(folder / file, {name: values[name] for name in part})
        weight_map.update(dict.fromkeys(part, file))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder


_GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name: str) -> str:
    stem, _, kind = name.rpartition(".")
    if stem in _GGUF_NAMES:
        return f"{_GGUF_NAMES[stem]}.{kind}"
    _, _, index, rest = stem.split(".", 3)
    return f"blk.{index}.{_GGUF_NAMES[rest]}.{kind}"


def interleave(rows: np.ndarray, heads: int) -> np.ndarray:
    """Row order of llama files: the first and second half of a head's rows alternate."""
    halves = rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def write_gguf(
    path: Path,
    config: dict,
    values: dict[str, np.ndarray],
    *,
    kind: str = "F32",
    extra: dict[str, np.ndarray] | None = None,
    fill=lambda writer: None,
) -> Path:
    """A GGUF file of the same model; `kind` quantises the matrices, `fill` adds metadata."""
    architecture = config["model_type"]
    writer = gguf.GGUFWriter(str(path), architecture)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    fill(writer)
    code = gguf.GGMLQuantizationType[kind]
    for name, value in values.items():
        for letter, heads in (("q", "num_attention_heads"), ("k", "num_key_value_heads")):
            if architecture == "llama" and f".{letter}_proj." in name:
                value = interleave(value, config[heads])
        if value.ndim == 2 and kind not in ("F32", "F16"):
            writer.add_tensor(gguf_name(name), gguf.quants.quantize(value, code), raw_dtype=code)
        else:
            writer.add_tensor(gguf_name(name), value.astype(np.float16) if kind == "F16" else value)
    for name, value in (extra or {}).items():
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
