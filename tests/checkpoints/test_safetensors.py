"""Reading safetensors: sharding rules, damage, and number formats."""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from checkpoints import toys

from specdec.checkpoints import locate, open_weights
from specdec.checkpoints.safetensors import SafetensorsSource
from specdec.errors import CheckpointError

BF16, FP8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn


def bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    config = toys.config()
    return toys.write_folder(tmp_path / "model", config, toys.tensors(config), shards=2)


@pytest.mark.parametrize("shards", [1, 2])
def test_every_tensor_is_read_under_its_name(tmp_path: Path, shards: int):
    config = toys.config()
    values = toys.tensors(config)
    source = open_weights(locate(str(toys.write_folder(tmp_path, config, values, shards))))
    assert source.names() == set(values)
    for name, value in values.items():
        assert source.shape(name) == value.shape
        np.testing.assert_array_equal(source.read(name), value)


def test_case_31_missing_shard_is_named_with_a_tensor(sharded: Path):
    (sharded / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model-00002-of-00002\.safetensors.*missing.*model\."):
        SafetensorsSource(sharded)


def test_case_31_stray_single_file_is_ignored_when_there_is_an_index(sharded: Path):
    before = SafetensorsSource(sharded)
    toys.write_safetensors(
        sharded / "model.safetensors",
        {"stray": np.ones(3, np.float32), "model.norm.weight": np.ones(32, np.float32)},
    )
    after = SafetensorsSource(sharded)
    assert after.names() == before.names()
    np.testing.assert_array_equal(after.read("model.norm.weight"), before.read("model.norm.weight"))


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("cut", [1, 100])
def test_case_31_truncated_file_is_refused_before_anything_is_read(tmp_path: Path, shards: int, cut: int):
    config = toys.config()
    toys.write_folder(tmp_path, config, toys.tensors(config), shards)
    path = max(tmp_path.glob("*.safetensors"))
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(CheckpointError, match=rf"{path.name}: cut short.*last tensor"):
        SafetensorsSource(tmp_path)


def test_case_31_index_that_names_an_unknown_tensor(sharded: Path):
    index = sharded / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"]["model.layers.7.ghost.weight"] = "model-00001-of-00002.safetensors"
    index.write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"model-00001-of-00002.*model\.layers\.7\.ghost\.weight"):
        SafetensorsSource(sharded)


@pytest.mark.parametrize("shard", ["../model.safetensors", "/etc/hosts", "", "..", 3, "a/b.safetensors"])
def test_index_must_name_neighbours(sharded: Path, shard: object):
    index = sharded / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"x": shard}}))
    with pytest.raises(CheckpointError, match="should name a file in this folder"):
        SafetensorsSource(sharded)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"weight_map": {}}', '{"weight_map": 3}', "\xff"])
def test_damaged_index(sharded: Path, content: str):
    (sharded / "model.safetensors.index.json").write_text(content, encoding="latin-1")
    with pytest.raises(CheckpointError, match="weight_map"):
        SafetensorsSource(sharded)


@pytest.mark.parametrize("found", ["model-00001-of-00002.safetensors", "pytorch_model.bin"])
def test_what_lies_there_instead_is_named(tmp_path: Path, found: str):
    (tmp_path / found).write_bytes(b"")
    with pytest.raises(CheckpointError, match=found):
        SafetensorsSource(tmp_path)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}, "needs 8 bytes"),
        ({"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}, "gap"),
        ({"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}, "F99"),
        ({"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}, "header entry"),
        ({"dtype": "F32", "shape": [1.5], "data_offsets": [0, 4]}, "header entry"),
        ({"dtype": "F32", "shape": [1]}, "header entry"),
        ({"dtype": "F32", "shape": [0, 1 << 61], "data_offsets": [0, 0]}, "shape"),
        ({"dtype": "F32", "shape": [1] * 65, "data_offsets": [0, 4]}, "shape"),
        (3, "header entry"),
    ],
)
def test_malformed_entries(tmp_path: Path, entry: object, message: str):
    text = json.dumps({"some.weight": entry}).encode()
    (tmp_path / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(4))
    with pytest.raises(CheckpointError, match=f"some.weight.*{message}"):
        SafetensorsSource(tmp_path)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16])
def test_case_32_formats_are_kept_bit_by_bit(tmp_path: Path, dtype: type):
    every = np.arange(1 << 16, dtype=np.uint16)
    value = every.view(dtype) if dtype is not np.float32 else (every.astype(np.uint32) << 16).view(dtype)
    # The odd tensor in front makes the wide ones start at an odd byte.
    toys.write_safetensors(
        tmp_path / "model.safetensors",
        {"odd": np.zeros(1, FP8), "odd_scale": np.ones(1, np.float32), "wide": value.reshape(256, 256)},
    )
    read = SafetensorsSource(tmp_path).read("wide")
    assert read.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(bits(read), bits(value.reshape(256, 256)))


@pytest.mark.parametrize("suffix", ["_scale_inv", "_scale"])
@pytest.mark.parametrize("scale_dtype", [np.float32, BF16])
@pytest.mark.parametrize("kind", ["scalar", "one", "row", "column", "block"])
def test_case_32_float8_is_multiplied_by_its_scale(tmp_path: Path, suffix: str, scale_dtype: type, kind: str):
    draw = np.random.default_rng(0)
    weight = draw.standard_normal((5, 7)).astype(FP8)
    shape = {"scalar": (), "one": (1,), "row": (5,), "column": (5, 1), "block": (3, 3)}[kind]
    scale = np.asarray(draw.uniform(0.001, 0.01, shape)).astype(scale_dtype)
    toys.write_safetensors(tmp_path / "model.safetensors", {"x.weight": weight, "x.weight" + suffix: scale})
    source = SafetensorsSource(tmp_path, fp8_block=(2, 3))
    assert source.names() == {"x.weight"}
    expected = np.empty((5, 7), np.float32)
    for i, j in np.ndindex(5, 7):
        index = {"scalar": (), "one": (0,), "row": (i,), "column": (i, 0), "block": (i // 2, j // 3)}[kind]
        expected[i, j] = np.float32(weight[i, j]) * np.float32(scale[index])
    np.testing.assert_array_equal(source.read("x.weight"), expected)


def test_case_32_block_size_comes_from_the_config(tmp_path: Path):
    weight, scale = np.ones((4, 4), FP8), np.arange(4, dtype=np.float32).reshape(2, 2)
    toys.write_config(tmp_path, {"quantization_config": {"quant_method": "fp8", "weight_block_size": [2, 2]}})
    toys.write_safetensors(tmp_path / "model.safetensors", {"x.weight": weight, "x.weight_scale_inv": scale})
    read = open_weights(locate(str(tmp_path))).read("x.weight")
    np.testing.assert_array_equal(read, np.kron(scale, np.ones((2, 2), np.float32)))


def test_case_32_float8_without_scale_is_refused(tmp_path: Path):
    toys.write_safetensors(tmp_path / "model.safetensors", {"x.weight": np.ones((4, 4), FP8)})
    with pytest.raises(CheckpointError, match=r"x\.weight.*x\.weight_scale_inv"):
        SafetensorsSource(tmp_path)


def test_case_32_float8_with_a_scale_of_another_shape_is_refused(tmp_path: Path):
    values = {"x.weight": np.ones((4, 4), FP8), "x.weight_scale": np.ones((3, 3), np.float32)}
    toys.write_safetensors(tmp_path / "model.safetensors", values)
    with pytest.raises(CheckpointError, match=r"x\.weight.*\(3, 3\)"):
        SafetensorsSource(tmp_path).read("x.weight")


def test_case_32_integer_weights_are_refused(tmp_path: Path):
    toys.write_safetensors(tmp_path / "model.safetensors", {"x.weight": np.ones((4, 4), np.int8)})
    with pytest.raises(CheckpointError, match=r"x\.weight.*int8"):
        SafetensorsSource(tmp_path).read("x.weight")


def test_agrees_with_the_reference_package(tmp_path: Path):
    from safetensors.numpy import save_file

    value = np.arange(6, dtype=np.float16).reshape(2, 3)
    save_file({"a": value, "b": np.zeros((0, 4), np.float32)}, str(tmp_path / "model.safetensors"))
    source = SafetensorsSource(tmp_path)
    np.testing.assert_array_equal(source.read("a"), value)
    assert source.read("b").shape == (0, 4)
