"""GGUF files: the same model as its safetensors twin, dequantisation, damage."""

import struct
from pathlib import Path

import gguf
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checkpoints import toys

from specdec.checkpoints import ModelFiles, locate, open_weights, read_config
from specdec.checkpoints.gguf_file import GgufFile
from specdec.errors import CheckpointError, ConfigError
from specdec.targets.loading import load_params


def load(files: ModelFiles):
    config = read_config(files)
    return config, load_params(config, open_weights(files), jnp.float32)


@pytest.mark.parametrize("model_type", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_case_33_gguf_and_safetensors_load_the_same(tmp_path: Path, model_type: str, tied: bool, biased: bool):
    config = toys.config(
        model_type, tie_word_embeddings=tied, attention_bias=biased, mlp_bias=biased and model_type == "llama"
    )
    values = toys.tensors(config)
    folder = toys.write_folder(tmp_path / "folder", config, values)
    path = toys.write_gguf(tmp_path / "model.gguf", config, values)
    expected_config, expected = load(locate(str(folder)))
    found_config, found = load(locate(str(path)))
    # Float32 is all that GGUF keeps of the epsilon.
    assert found_config.norm_eps == pytest.approx(expected_config.norm_eps, rel=1e-6)
    assert vars(found_config) | {"norm_eps": 0} == vars(expected_config) | {"norm_eps": 0}
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def rotate(vector: np.ndarray, position: int, pairs: list[tuple[int, int]]) -> np.ndarray:
    out = np.empty_like(vector)
    for index, (a, b) in enumerate(pairs):
        angle = position * 10000.0 ** (-index / len(pairs))
        out[a] = vector[a] * np.cos(angle) - vector[b] * np.sin(angle)
        out[b] = vector[b] * np.cos(angle) + vector[a] * np.sin(angle)
    return out


def test_case_33_attention_scores_of_stored_and_read_rows_agree(tmp_path: Path):
    """The file rotates neighbours, the library halves: with the rows put back both give one score."""
    config = toys.config()
    path = toys.write_gguf(tmp_path / "model.gguf", config, toys.tensors(config))
    file, source = GgufFile(path), open_weights(locate(str(path)))
    x, size = np.random.default_rng(1).standard_normal(32), 16
    neighbours = [(2 * i, 2 * i + 1) for i in range(size // 2)]
    halves = [(i, i + size // 2) for i in range(size // 2)]
    scores = []
    for pairs, get in (
        (neighbours, lambda letter: file.raw(f"blk.1.attn_{letter}.weight").view(np.float32).reshape(-1, 32)),
        (halves, lambda letter: source.read(f"model.layers.1.self_attn.{letter}_proj.weight")),
    ):
        query, key = (get(letter).astype(np.float64) @ x for letter in "qk")
        heads = [(query[h * size : (h + 1) * size], key[h // 2 * size : (h // 2 + 1) * size]) for h in range(4)]
        scores.append([rotate(q, 9, pairs) @ rotate(k, 4, pairs) for q, k in heads])
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-9)


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_quantised_files_load_close_to_the_original(tmp_path: Path, kind: str):
    config = toys.config()
    values = toys.tensors(config)
    source = open_weights(locate(str(toys.write_gguf(tmp_path / "m.gguf", config, values, kind=kind))))
    worst = {"F16": 2e-3, "BF16": 1e-2, "Q8_0": 0.02, "Q5_0": 0.2, "Q5_1": 0.2}.get(kind, 0.4)
    for name, value in values.items():
        read = np.asarray(source.read(name), np.float32)
        assert np.abs(read - value).max() < worst * max(1.0, np.abs(value).max() / 3), name


def test_q4_1_against_its_definition(tmp_path: Path):
    config = toys.config("qwen2")
    path = toys.write_gguf(tmp_path / "m.gguf", config, toys.tensors(config), kind="Q4_1")
    raw = GgufFile(path).raw("blk.0.ffn_down.weight")
    expected = []
    for block in raw.reshape(-1, 20):
        scale, low = block[:4].view(np.float16).astype(np.float32)
        codes = [*(block[4:] & 15), *(block[4:] >> 4)]
        expected += [np.float32(code) * scale + low for code in codes]
    read = open_weights(locate(str(path))).read("model.layers.0.mlp.down_proj.weight")
    np.testing.assert_array_equal(read, np.reshape(expected, read.shape))


@pytest.mark.parametrize("kind", ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"])
def test_k_quants_are_read_through_the_package(tmp_path: Path, kind: str):
    code = gguf.GGMLQuantizationType[kind]
    row_bytes = gguf.GGML_QUANT_SIZES[code][1]
    raw = np.random.default_rng(0).integers(0, 60, (3, row_bytes), dtype=np.uint8)
    writer = gguf.GGUFWriter(str(tmp_path / "m.gguf"), "llama")
    writer.add_tensor("output.weight", raw, raw_dtype=code)
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        step()
    writer.close()
    from specdec.checkpoints.gguf import dequantise

    read = dequantise(GgufFile(tmp_path / "m.gguf"), "output.weight")
    assert read.shape == (3, 256)
    np.testing.assert_array_equal(read, gguf.quants.dequantize(raw, code))


def test_unreadable_type_is_refused_naming_the_tensor(tmp_path: Path):
    config = toys.config()
    path = toys.write_gguf(
        tmp_path / "m.gguf",
        config,
        toys.tensors(config),
        extra={"blk.0.ffn_norm.bias": np.ones(4, np.int32)},
    )
    with pytest.raises(CheckpointError, match=r"blk\.0\.ffn_norm\.bias.*I32"):
        open_weights(locate(str(path)))


def test_unknown_tensors_keep_their_names_and_are_reported(tmp_path: Path):
    config = toys.config()
    extra = {"blk.0.strange.weight": np.ones(4, np.float32)}
    path = toys.write_gguf(tmp_path / "m.gguf", config, toys.tensors(config), extra=extra)
    with pytest.warns(UserWarning, match=r"1 tensors.*blk\.0\.strange\.weight"):
        load(locate(str(path)))


@pytest.mark.parametrize(
    ("fill", "named"),
    [
        (lambda w: w.add_sliding_window(16), "sliding_window"),
        (lambda w: w.add_expert_count(4), "expert_count"),
        (lambda w: w.add_rope_dimension_count(8), "rope.dimension_count"),
        (lambda w: w.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE), "rope.scaling.type"),
        (lambda w: w.add_uint16("split.count", 2), "parts"),
    ],
)
def test_unsupported_settings_are_named(tmp_path: Path, fill, named: str):
    config = toys.config()
    path = toys.write_gguf(tmp_path / "m.gguf", config, toys.tensors(config), fill=fill)
    with pytest.raises((ConfigError, CheckpointError), match=named):
        read_config(locate(str(path)))


def test_unsupported_architecture_is_named(tmp_path: Path):
    config = toys.config()
    path = toys.write_gguf(tmp_path / "m.gguf", config | {"model_type": "gemma"}, toys.tensors(config))
    with pytest.raises(ConfigError, match=r"general\.architecture.*gemma.*llama, qwen2, qwen3"):
        read_config(locate(str(path)))


def header(counts: tuple[int, int], body: bytes = b"", version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, *counts) + body


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


HUGE = 1 << 62


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read"),
        (b"GGU", "cut short"),
        (b"ELF!" + bytes(40), "not a GGUF file"),
        (header((0, 0), version=1), "version 1"),
        (header((0, 0), version=3 << 24), "little-endian"),
        (header((0, HUGE)), "cut short"),
        (header((HUGE, 0)), "cut short"),
        (header((0, 1), struct.pack("<Q", HUGE)), "cut short"),
        (header((0, 1), text(b"a") + struct.pack("<I", 99)), "unknown type 99"),
        (header((0, 1), text(b"a") + struct.pack("<IIQ", 9, 0, HUGE)), "cut short"),
        (header((0, 1), text(b"a") + struct.pack("<IIQ", 9, 8, HUGE)), "cut short"),
        (header((0, 1), text(b"a") + struct.pack("<IIQ", 9, 9, 1)), "unsupported type 9"),
        (header((0, 1), text(b"\xff") + struct.pack("<II", 4, 1)), "UTF-8"),
        (header((0, 2), 2 * (text(b"a") + struct.pack("<II", 4, 1))), "twice"),
        (header((0, 1), text(b"general.alignment") + struct.pack("<II", 4, 3)), "power of two"),
        (header((0, 1), text(b"general.alignment") + struct.pack("<II", 4, 0)), "power of two"),
        (header((1, 0), text(b"t") + struct.pack("<I", 1 << 31)), "dimensions"),
        (header((1, 0), text(b"t") + struct.pack("<IQIQ", 1, 4, 77, 0)), "unknown ggml type 77"),
        (header((1, 0), text(b"t") + struct.pack("<IQIQ", 1, 33, 8, 0)), "whole Q8_0 blocks"),
        (header((1, 0), text(b"t") + struct.pack("<IQIQ", 1, HUGE, 0, 0)), "cut short.*'t'"),
        (header((1, 0), text(b"t") + struct.pack("<IQIQ", 1, 1, 0, HUGE)), "cut short.*'t'"),
        (header((1, 0), text(b"t") + struct.pack("<IQQIQ", 2, 0, HUGE, 0, 0)), "empty"),
        (header((2, 0), 2 * (text(b"t") + struct.pack("<IQIQ", 1, 1, 0, 0)) + bytes(99)), "twice"),
    ],
)
def test_hostile_files_are_refused(tmp_path: Path, content: bytes, message: str):
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=message):
        GgufFile(path)


def test_truncation_names_the_tensor(tmp_path: Path):
    config = toys.config()
    path = toys.write_gguf(tmp_path / "m.gguf", config, toys.tensors(config))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"cut short: tensor 'blk\.1\.ffn_down\.weight'"):
        open_weights(locate(str(path)))
