"""The real SmolLM2-135M-Instruct: shapes, ids that its authors' tokenizer gives, speed, streaming.

Leaves out: logits, which are compared with transformers elsewhere.
"""

import time

import jax
import jax.numpy as jnp
import pytest

from specdec.checkpoints import (
    ModelFiles,
    StreamDecoder,
    Tokenizer,
    load_tokenizer,
    locate,
    open_weights,
    read_config,
    stop_ids,
)
from specdec.targets.config import Family
from specdec.targets.loading import load_params

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def files() -> ModelFiles:
    return locate("smollm2-135m", progress=False)


@pytest.fixture(scope="module")
def tokenizer(files: ModelFiles) -> Tokenizer:
    return load_tokenizer(files)


def test_weights_load_in_seconds(files: ModelFiles):
    before = time.perf_counter()
    config = read_config(files)
    params = load_params(config, open_weights(files), jnp.float32)
    assert time.perf_counter() - before < 30
    assert (config.family, config.tied, config.rotary.theta) == (Family.LLAMA, True, 100000.0)
    assert (config.num_layers, config.num_heads, config.num_kv_heads, config.head_dim) == (30, 9, 3, 64)
    assert params.embed.shape == (49152, 576)
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == 134_515_008
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(params))


def test_the_second_lookup_is_instant(files: ModelFiles):
    before = time.perf_counter()
    assert locate("smollm2-135m") == files
    assert time.perf_counter() - before < 0.5


@pytest.mark.parametrize(
    "text", ["12345", "a 🙂 b", "漢字かな", "<|im_start|>user\nhi<|im_end|>\n", "x  y\n\n\tz ", "\ufffd"]
)
def test_text_comes_back(tokenizer: Tokenizer, text: str):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    decoder = StreamDecoder(tokenizer)
    pieces = [decoder.push([item]) for item in ids]
    assert "".join(pieces) + decoder.flush() == text
    assert all("\ufffd" not in piece for piece in pieces) or "\ufffd" in text


def test_known_ids(tokenizer: Tokenizer):
    assert tokenizer.encode("Hello world 123") == [19556, 905, 216, 33, 34, 35]
    assert tokenizer.encode("<|im_start|><|im_end|>") == [1, 2]
    opening = [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018]
    opening += [411, 407, 19712, 8182, 2, 198, 1, 4093, 198]
    chat = tokenizer.encode_chat("Hi")
    assert chat[: len(opening)] == opening
    assert chat[-6:] == [2, 198, 1, 520, 9531, 198]
    assert tokenizer.size == 49152


def test_stop_ids(files: ModelFiles, tokenizer: Tokenizer):
    assert stop_ids(read_config(files), tokenizer) == (2,)
