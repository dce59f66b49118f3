"""From a checkpoint to parameters: fusing, heads, shapes, leftovers."""

import dataclasses
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from checkpoints import toys

from specdec.checkpoints import locate, open_weights, read_config
from specdec.errors import CheckpointError
from specdec.targets.loading import load_params
from specdec.targets.params import TargetParams


def load(folder: Path, dtype=jnp.float32) -> TargetParams:
    files = locate(str(folder))
    return load_params(read_config(files), open_weights(files), dtype)


@pytest.mark.parametrize("model_type", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("biased", [False, True])
def test_projections_are_fused_in_order(tmp_path: Path, model_type: str, biased: bool):
    config = toys.config(model_type, attention_bias=biased, mlp_bias=biased and model_type == "llama")
    values = toys.tensors(config)
    params = load(toys.write_folder(tmp_path, config, values))
    np.testing.assert_array_equal(params.embed, values["model.embed_tokens.weight"])
    np.testing.assert_array_equal(params.head, values["lm_head.weight"])
    np.testing.assert_array_equal(params.norm, values["model.norm.weight"])
    assert len(params.layers) == 2
    for index, layer in enumerate(params.layers):

        def get(name: str, index=index) -> np.ndarray | None:
            return values.get(f"model.layers.{index}.{name}")

        def stack(names: list[str], get=get) -> np.ndarray | None:
            parts = [get(name) for name in names]
            return None if parts[0] is None else np.concatenate(parts)

        expected = {
            "attn_norm": get("input_layernorm.weight"),
            "qkv": stack([f"self_attn.{letter}_proj.weight" for letter in "qkv"]),
            "qkv_bias": stack([f"self_attn.{letter}_proj.bias" for letter in "qkv"]),
            "q_norm": get("self_attn.q_norm.weight"),
            "k_norm": get("self_attn.k_norm.weight"),
            "out": get("self_attn.o_proj.weight"),
            "out_bias": get("self_attn.o_proj.bias"),
            "mlp_norm": get("post_attention_layernorm.weight"),
            "gate_up": stack(["mlp.gate_proj.weight", "mlp.up_proj.weight"]),
            "gate_up_bias": stack(["mlp.gate_proj.bias", "mlp.up_proj.bias"]),
            "down": get("mlp.down_proj.weight"),
            "down_bias": get("mlp.down_proj.bias"),
        }
        for field in dataclasses.fields(layer):
            found = getattr(layer, field.name)
            assert (found is None) == (expected[field.name] is None), field.name
            if found is not None:
                np.testing.assert_array_equal(found, expected[field.name], err_msg=field.name)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_every_array_has_the_asked_dtype(tmp_path: Path, dtype):
    config = toys.config(tie_word_embeddings=True)
    values = {name: value.astype(ml_dtypes.bfloat16) for name, value in toys.tensors(config).items()}
    params = load(toys.write_folder(tmp_path, config, values), dtype)
    assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {jnp.dtype(dtype)}
    expected = values["model.embed_tokens.weight"].astype(jnp.dtype(dtype))
    np.testing.assert_array_equal(np.asarray(params.embed).view(np.uint8), expected.view(np.uint8))


def test_values_that_do_not_fit_into_float16_are_refused(tmp_path: Path):
    config = toys.config()
    values = toys.tensors(config)
    values["model.layers.1.mlp.down_proj.weight"][3, 4] = 1e6
    with pytest.raises(CheckpointError, match=r"model\.layers\.1\.mlp\.down_proj\.weight.*float16"):
        load(toys.write_folder(tmp_path, config, values), jnp.float16)


def test_case_30_tied_without_head(tmp_path: Path):
    config = toys.config(tie_word_embeddings=True)
    assert load(toys.write_folder(tmp_path, config, toys.tensors(config))).head is None


def test_case_30_tied_with_the_same_head_is_silent(tmp_path: Path):
    config = toys.config(tie_word_embeddings=True)
    values = toys.tensors(config)
    values["lm_head.weight"] = values["model.embed_tokens.weight"]
    assert load(toys.write_folder(tmp_path, config, values)).head is None


def test_case_30_tied_with_another_head_the_embedding_wins_and_says_so(tmp_path: Path):
    config = toys.config(tie_word_embeddings=True)
    values = toys.tensors(config)
    values["lm_head.weight"] = values["model.embed_tokens.weight"] + 1
    with pytest.warns(UserWarning, match=r"lm_head\.weight.*differs from the embedding"):
        params = load(toys.write_folder(tmp_path, config, values))
    assert params.head is None
    np.testing.assert_array_equal(params.embed, values["model.embed_tokens.weight"])


def test_case_30_untied_without_head_is_refused(tmp_path: Path):
    config = toys.config()
    values = toys.tensors(config)
    del values["lm_head.weight"]
    with pytest.raises(CheckpointError, match=r"lm_head\.weight.*missing.*tie_word_embeddings"):
        load(toys.write_folder(tmp_path, config, values))


def test_case_31_unused_tensors_are_reported_once(tmp_path: Path):
    config = toys.config()
    values = toys.tensors(config)
    values["model.layers.0.extra.weight"] = np.ones(2, np.float32)
    values["visual.patch.weight"] = np.ones(2, np.float32)
    values["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(8, np.float32)
    folder = toys.write_folder(tmp_path, config, values)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load(folder)
    messages = [str(item.message) for item in caught]
    assert len(messages) == 1
    assert "2 tensors" in messages[0]
    assert "model.layers.0.extra.weight" in messages[0]
    assert "visual.patch.weight" in messages[0]


@pytest.mark.parametrize("name", sorted(toys.tensors(toys.config())))
def test_case_31_every_missing_tensor_is_named(tmp_path: Path, name: str):
    config = toys.config()
    values = toys.tensors(config)
    del values[name]
    with pytest.raises(CheckpointError, match=rf"{name}.*missing"):
        load(toys.write_folder(tmp_path, config, values))


@pytest.mark.parametrize("name", sorted(toys.tensors(toys.config("qwen2"))))
def test_case_31_every_wrong_shape_is_named(tmp_path: Path, name: str):
    config = toys.config("qwen2")
    values = toys.tensors(config)
    values[name] = values[name][:-1]
    with pytest.raises(CheckpointError, match=rf"{name}.*has shape"):
        load(toys.write_folder(tmp_path, config, values))


def test_absurd_sizes_are_refused_before_anything_is_allocated(tmp_path: Path):
    config = toys.config()
    folder = toys.write_folder(tmp_path, config, toys.tensors(config))
    toys.write_config(folder, {**config, "head_dim": 2_000_000_000})
    with pytest.raises(CheckpointError, match=r"layers\.0\.self_attn\.q_proj\.weight. has shape"):
        load(folder)


def test_a_config_with_more_layers_than_the_file_is_refused_at_once(tmp_path: Path):
    config = toys.config()
    folder = toys.write_folder(tmp_path, config, toys.tensors(config))
    toys.write_config(folder, {**config, "num_hidden_layers": 2_000_000_000})
    with pytest.raises(CheckpointError, match=r"layers\.2\.input_layernorm\.weight.*missing"):
        load(folder)
