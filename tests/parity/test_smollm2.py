"""The real model: weights, logits and greedy text against transformers. Leaves out: speed (benchmarks)."""

import numpy as np
import pytest
import transformers
from parity import passes, toy_models
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

import specdec
from specdec import checkpoints
from specdec.analysis.ties import is_tie

torch = toy_models.torch
pytestmark = [pytest.mark.oracle, pytest.mark.model, pytest.mark.slow]

QUESTIONS = ["What is the capital of France?", "Write a python function to merge two sorted lists."]
NEW_TOKENS = 32


@pytest.fixture(scope="module")
def files() -> checkpoints.ModelFiles:
    return checkpoints.locate("smollm2-135m", progress=False)


@pytest.fixture(scope="module")
def ours() -> specdec.Model:
    return specdec.load("smollm2-135m", progress=False)


@pytest.fixture(scope="module")
def theirs(files: checkpoints.ModelFiles) -> transformers.PreTrainedModel:
    """transformers with the weights that the library read, handed over in memory."""
    read, source = checkpoints.read_config(files), checkpoints.open_weights(files)
    config = transformers.LlamaConfig(
        vocab_size=read.vocab_size,
        hidden_size=read.hidden_size,
        intermediate_size=read.intermediate_size,
        num_hidden_layers=read.num_layers,
        num_attention_heads=read.num_heads,
        num_key_value_heads=read.num_kv_heads,
        max_position_embeddings=read.max_positions,
        rms_norm_eps=read.norm_eps,
        tie_word_embeddings=read.tied,
        rope_parameters={"rope_type": "default", "rope_theta": read.rotary.theta},
        eos_token_id=list(read.stop_ids),
        pad_token_id=0,
    )
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
    weights = {name: torch.tensor(source.read(name).astype(np.float32)) for name in source.names()}
    missing, unexpected = model.load_state_dict(weights, strict=False, assign=True)
    assert (missing, unexpected) == (["lm_head.weight"] * read.tied, [])
    model.tie_weights()
    # Made on the meta device, these hold no values.
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config)
    return model.eval()


def test_weights_and_sizes_are_those_that_transformers_reads(files, theirs):
    """Its own GGUF reader, bit by bit: quantised blocks, and the row order of queries and keys."""
    found = load_gguf_checkpoint(str(files.gguf), return_tensors=True, model_to_load=theirs)
    source = checkpoints.open_weights(files)
    assert set(found["tensors"]) == source.names()
    for name, values in found["tensors"].items():
        np.testing.assert_array_equal(source.read(name), values.numpy(), err_msg=name)
    for key in ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "rms_norm_eps"):
        assert found["config"][key] == getattr(theirs.config, key), key
    assert found["config"]["rope_theta"] == theirs.config.rope_parameters["rope_theta"]


def test_logits_of_a_prompt(ours, theirs):
    """At every position; the largest logits are near 30."""
    ids = list(ours.encode(QUESTIONS[1]))
    _, chunk = passes.read(ours, ours.target.init(1, 256), ids, size=64)
    expected = toy_models.logits_of(theirs, ids)
    actual = passes.logits(ours, chunk)
    assert np.abs(actual - expected).max() < 2e-3
    assert (actual.argmax(-1) == expected.argmax(-1)).all()


@pytest.mark.parametrize("strategy", ["plain", "prompt_lookup"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_greedy_text(ours, theirs, strategy: str, question: str):
    chosen = getattr(specdec.strategies, strategy)()
    result = specdec.generate(ours, question, strategy=chosen, max_new_tokens=NEW_TOKENS)
    prompt = torch.tensor([result.prompt_ids])
    with torch.no_grad():
        out = theirs.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            max_new_tokens=NEW_TOKENS,
            output_logits=True,
            return_dict_in_generate=True,
        )
    expected = tuple(out.sequences[0, prompt.shape[1] :].tolist())
    assert len(result.ids) == len(expected)
    first = next((at for at, pair in enumerate(zip(result.ids, expected, strict=True)) if len(set(pair)) > 1), None)
    if first is not None:
        assert_tie(ours, [*result.prompt_ids, *expected[:first]], out.logits[first][0].numpy())


def assert_tie(ours: specdec.Model, ids: list[int], expected: np.ndarray) -> None:
    """The rule of the library's own reports, with transformers as plain decoding."""
    _, chunk = passes.read(ours, ours.target.init(1, 256), ids, size=128)
    actual = passes.logits(ours, chunk)[-1]
    second, first = np.sort(expected)[-2:]
    assert is_tie(float(first - second), float(np.abs(actual - expected).max()))


def test_the_text_makes_sense(ours):
    """Parity cannot see a mistake that both sides share."""
    result = specdec.generate(ours, QUESTIONS[0], max_new_tokens=NEW_TOKENS)
    assert "Paris" in result.text
