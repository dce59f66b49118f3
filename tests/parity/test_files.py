"""The same model through other files: bfloat16, float16, shards, what transformers wrote years ago.

Leaves out: damaged files (tests/checkpoints).
"""

import json
from pathlib import Path

import numpy as np
import pytest
import transformers
from parity import passes, toy_models
from parity.toy_models import assert_close

torch = toy_models.torch
pytestmark = pytest.mark.oracle
FAMILIES = ("llama-biases", "qwen2", "qwen3-tied")


def logits(folder: Path, ids: list[int]) -> np.ndarray:
    model = toy_models.load(folder)
    return passes.logits(model, passes.read(model, passes.start(model), ids)[1])


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_saved_in_sixteen_bits(name: str, dtype: str, tmp_path: Path):
    """The values of the file, computed with in float32, as transformers does when asked for float32."""
    toy_models.reference(name).to(dtype=getattr(torch, dtype)).save_pretrained(tmp_path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    ids = toy_models.prompt(20)
    assert_close(logits(tmp_path, ids), toy_models.logits_of(theirs, ids))


@pytest.mark.parametrize("name", FAMILIES)
def test_saved_in_shards(name: str, tmp_path: Path):
    theirs = toy_models.reference(name)
    theirs.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    ids = toy_models.prompt(20)
    assert_close(logits(tmp_path, ids), toy_models.logits_of(theirs, ids))


@pytest.mark.parametrize("name", ["llama-theta", "llama-linear", "llama-llama3", "llama-yarn", "qwen3-yarn"])
def test_older_config_files(name: str, tmp_path: Path):
    """`rope_theta` beside `rope_scaling`, as before transformers 5; transformers reads it the same way."""
    toy_models.reference(name).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    scaling = config.pop("rope_parameters")
    config["rope_theta"] = scaling.pop("rope_theta")
    config["rope_scaling"] = None if scaling["rope_type"] == "default" else scaling
    path.write_text(json.dumps(config))
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="eager").eval()
    ids = toy_models.prompt(40)
    expected = toy_models.logits_of(theirs, ids)
    assert_close(logits(tmp_path, ids), expected)
    assert_close(toy_models.logits_of(toy_models.reference(name), ids), expected, "the two transformers models")
