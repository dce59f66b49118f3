"""Configurations: defaults, rotary settings, stop ids, and what is refused."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import gguf
import numpy as np
import pytest
from checkpoints import toys

from specdec.checkpoints import locate, read_config, stop_ids
from specdec.errors import ConfigError
from specdec.targets.config import Family, RotaryConfig, RotaryKind, TargetConfig


def read(folder: Path, generation: dict | None = None, **changes) -> TargetConfig:
    return read_config(
        locate(str(toys.write_config(folder, toys.config(changes.pop("family", "llama"), **changes), generation)))
    )


def test_sizes_and_switches(tmp_path: Path):
    found = read(tmp_path, tie_word_embeddings=True, attention_bias=True, mlp_bias=True)
    assert found == TargetConfig(
        family=Family.LLAMA,
        vocab_size=40,
        hidden_size=32,
        num_layers=2,
        num_heads=4,
        num_kv_heads=2,
        head_dim=16,
        intermediate_size=64,
        norm_eps=1e-5,
        rotary=RotaryConfig(theta=10000.0),
        max_positions=128,
        tied=True,
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        qk_norm=False,
        stop_ids=(2,),
        bos_id=1,
    )


def test_family_switches(tmp_path: Path):
    qwen2, qwen3 = read(tmp_path / "2", family="qwen2"), read(tmp_path / "3", family="qwen3")
    assert (qwen2.qkv_bias, qwen2.out_bias, qwen2.qk_norm) == (True, False, False)
    assert (qwen3.qkv_bias, qwen3.out_bias, qwen3.qk_norm) == (False, False, True)
    biased = read(tmp_path / "4", family="qwen3", attention_bias=True)
    assert (biased.qkv_bias, biased.out_bias) == (True, True)


def test_absent_and_null_keys_take_the_family_default(tmp_path: Path):
    found = read(tmp_path / "a", head_dim=None, num_key_value_heads=None, rope_theta=None, bos_token_id=None)
    assert (found.head_dim, found.num_kv_heads, found.rotary.theta, found.bos_id) == (8, 4, 10000.0, None)
    assert read(tmp_path / "b", family="qwen3", head_dim=None).head_dim == 128


@pytest.mark.parametrize(
    ("config", "generation", "expected"),
    [
        (2, None, (2,)),
        (None, {"eos_token_id": 7}, (7,)),
        ([2, 5], {"eos_token_id": [7, 2]}, (2, 5, 7)),
        (2, {"eos_token_id": 7}, (2, 7)),
        (None, {}, ()),
    ],
)
@pytest.mark.parametrize("own", [(), (9,), (2,)])
def test_case_07_stop_ids_are_a_union(tmp_path: Path, config, generation, expected, own):
    found = read(tmp_path, generation, eos_token_id=config)
    assert found.stop_ids == expected
    assert stop_ids(found, SimpleNamespace(eos_ids=own)) == tuple(sorted({*expected, *own}))
    assert stop_ids(found, None) == expected


@pytest.mark.parametrize("value", ["2", -1, [2, "x"], True, 1.5, {}])
def test_case_07_bad_ids_are_refused(tmp_path: Path, value):
    with pytest.raises(ConfigError, match=r"generation_config\.json.*eos_token_id"):
        read(tmp_path, {"eos_token_id": value})


LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize(
    ("rope", "expected"),
    [
        ({"rope_type": "default"}, RotaryConfig(500.0)),
        ({"type": "linear", "factor": 2.0}, RotaryConfig(500.0, RotaryKind.LINEAR, 2.0)),
        ({"rope_theta": 7.0, "rope_type": "linear", "factor": 2}, RotaryConfig(7.0, RotaryKind.LINEAR, 2.0)),
        (
            {"rope_type": "llama3", **LLAMA3, "original_max_position_embeddings": 64},
            RotaryConfig(500.0, RotaryKind.LLAMA3, 8.0, 1.0, 4.0, 64),
        ),
        ({"rope_type": "llama3", **LLAMA3}, RotaryConfig(500.0, RotaryKind.LLAMA3, 8.0, 1.0, 4.0, 128)),
        (
            {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
            RotaryConfig(500.0, RotaryKind.YARN, 4.0, original_max_positions=32),
        ),
        (
            {
                "rope_type": "yarn",
                "original_max_position_embeddings": 32,
                "beta_fast": 16,
                "beta_slow": 2,
                "truncate": False,
                "attention_factor": 1.25,
            },
            RotaryConfig(500.0, RotaryKind.YARN, 4.0, 1.0, 4.0, 32, 16.0, 2.0, 1.25, False),
        ),
        (
            {
                "rope_type": "yarn",
                "factor": 4,
                "original_max_position_embeddings": 32,
                "mscale": 2.0,
                "mscale_all_dim": 1.0,
            },
            RotaryConfig(
                500.0,
                RotaryKind.YARN,
                4.0,
                original_max_positions=32,
                attention_factor=(1 + 0.2 * math.log(4)) / (1 + 0.1 * math.log(4)),
            ),
        ),
    ],
)
def test_rotary_settings(tmp_path: Path, key: str, rope: dict, expected: RotaryConfig):
    assert read(tmp_path, rope_theta=500.0, **{key: rope}).rotary == expected


def test_rotary_settings_by_layer_type(tmp_path: Path):
    nested = {"full_attention": {"rope_type": "linear", "factor": 3.0, "rope_theta": 9.0}}
    found = read(tmp_path, rope_parameters=nested, rope_theta=None)
    assert found.rotary == RotaryConfig(9.0, RotaryKind.LINEAR, 3.0)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"family": "mistral"}, "model_type.*mistral"),
        ({"hidden_act": "gelu"}, "hidden_act.*gelu"),
        ({"vocab_size": None}, "vocab_size.*missing"),
        ({"vocab_size": 0}, "vocab_size"),
        ({"num_hidden_layers": "two"}, "num_hidden_layers"),
        ({"num_key_value_heads": 3}, "num_key_value_heads"),
        ({"head_dim": 7}, "head_dim"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
        ({"rms_norm_eps": True}, "rms_norm_eps"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "rope_scaling.*rope_type.*dynamic"),
        ({"rope_scaling": {"type": "longrope"}}, "type.*longrope"),
        ({"rope_scaling": {"rope_type": "linear"}}, "factor.*missing"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 0.5}}, "factor"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "low_freq_factor.*missing"),
        (
            {"rope_scaling": {"rope_type": "llama3", **LLAMA3, "high_freq_factor": 1.0}},
            "high_freq_factor",
        ),
        ({"rope_scaling": 3}, "rope_scaling"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quant_method.*gptq"),
        ({"quantization_config": {"quant_method": "compressed-tensors", "format": "int"}}, "quant_method"),
        ({"family": "qwen2", "use_sliding_window": True, "sliding_window": 64}, None),
        (
            {
                "family": "qwen2",
                "use_sliding_window": True,
                "sliding_window": 64,
                "max_window_layers": 1,
            },
            "sliding_window",
        ),
        (
            {
                "family": "qwen3",
                "use_sliding_window": True,
                "sliding_window": 64,
                "layer_types": ["full_attention", "sliding_attention"],
            },
            "sliding_window",
        ),
        ({"layer_types": ["full_attention", "linear_attention"]}, "layer_types"),
        (
            {"family": "qwen2", "use_sliding_window": False, "sliding_window": 64, "max_window_layers": 0},
            None,
        ),
        ({"quantization_config": {"quant_method": "fp8"}}, None),
    ],
)
def test_unsupported_values_are_refused_by_key(tmp_path: Path, changes: dict, named: str | None):
    if named is None:
        read(tmp_path, **changes)
        return
    with pytest.raises(ConfigError, match=named):
        read(tmp_path, **changes)


@pytest.mark.parametrize("content", ["", "[1]", "{", "[" * 100_000, '{"model_type": 1e999}', "\xff\xfe"])
def test_damaged_json_is_refused(tmp_path: Path, content: str):
    toys.write_config(tmp_path, {})
    (tmp_path / "config.json").write_text(content, encoding="latin-1")
    with pytest.raises(ConfigError, match=r"config\.json"):
        read_config(locate(str(tmp_path)))


@pytest.mark.parametrize("wanted", [(8.0, 4.0, 8192), (32.0, 4.0, 8192), (8.0, 2.5, 4096), (4.0, 4.0, 64)])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_llama3_settings_are_recovered_from_the_factors(tmp_path: Path, wanted: tuple, head_dim: int):
    factor, high, original = wanted
    divisors = []
    for index in range(head_dim // 2):
        length = 2 * math.pi * 500000.0 ** (2 * index / head_dim)
        if length < original / high:
            divisors.append(1.0)
        elif length > original:
            divisors.append(factor)
        else:
            smooth = (original / length - 1.0) / (high - 1.0)
            divisors.append(1 / ((1 - smooth) / factor + smooth))
    config = toys.config(head_dim=head_dim, rope_theta=500000.0)
    path = toys.write_gguf(
        tmp_path / "m.gguf",
        config,
        toys.tensors(config),
        extra={"rope_freqs.weight": np.asarray(divisors, np.float32)},
    )
    rotary = read_config(locate(str(path))).rotary
    assert (rotary.kind, rotary.factor, rotary.low_freq_factor) == (RotaryKind.LLAMA3, factor, 1.0)
    assert rotary.high_freq_factor == pytest.approx(high, rel=1e-3)
    assert rotary.original_max_positions == pytest.approx(original, rel=1e-3)


@pytest.mark.parametrize("divisors", [np.linspace(1, 9, 8), np.full(8, np.nan), np.full(8, 0.5), np.ones(3)])
def test_other_frequency_factors_are_refused(tmp_path: Path, divisors: np.ndarray):
    config = toys.config()
    extra = {"rope_freqs.weight": divisors.astype(np.float32)}
    path = toys.write_gguf(tmp_path / "m.gguf", config, toys.tensors(config), extra=extra)
    with pytest.raises(ConfigError, match=r"rope_freqs\.weight"):
        read_config(locate(str(path)))


def test_gguf_scaling_metadata(tmp_path: Path):
    def linear(writer: gguf.GGUFWriter) -> None:
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(4.0)

    def yarn(writer: gguf.GGUFWriter) -> None:
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(4.0)
        writer.add_rope_scaling_orig_ctx_len(32)

    config = toys.config()
    found = []
    for name, fill in (("linear", linear), ("yarn", yarn)):
        path = toys.write_gguf(tmp_path / f"{name}.gguf", config, toys.tensors(config), fill=fill)
        found.append(read_config(locate(str(path))).rotary)
    assert found[0] == RotaryConfig(10000.0, RotaryKind.LINEAR, 4.0)
    assert found[1] == RotaryConfig(10000.0, RotaryKind.YARN, 4.0, original_max_positions=32)


def test_gguf_end_of_turn_ids(tmp_path: Path):
    config = toys.config()
    path = toys.write_gguf(
        tmp_path / "m.gguf", config, toys.tensors(config), fill=lambda writer: writer.add_eot_token_id(11)
    )
    assert read_config(locate(str(path))).stop_ids == (2, 11)


@pytest.mark.oracle
@pytest.mark.parametrize("kind", ["default", "linear", "llama3", "yarn"])
def test_settings_mean_what_transformers_says(kind: str):
    """Our reading of a config yields the frequencies that transformers computes from it."""
    import torch
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    from specdec.checkpoints.hf_rotary import read_rotary
    from specdec.checkpoints.json_file import JsonObject
    from specdec.targets import rotary

    rope = {"rope_type": kind, "rope_theta": 10000.0}
    if kind != "default":
        rope["factor"] = 4.0
    if kind in ("llama3", "yarn"):
        rope["original_max_position_embeddings"] = 32
    if kind == "llama3":
        rope.update(low_freq_factor=1.0, high_freq_factor=4.0)
    values = toys.config(rope_parameters=rope)
    reference = LlamaRotaryEmbedding(LlamaConfig(**values))
    settings = read_rotary(JsonObject("here", json.loads(json.dumps(values))), 128)
    frequencies, scale = rotary.inverse_frequencies(settings, 16)
    np.testing.assert_allclose(frequencies, reference.inv_freq.to(torch.float32).numpy(), rtol=1e-6)
    assert scale == pytest.approx(reference.attention_scaling)
