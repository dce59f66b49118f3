"""Sampling filters equal transformers' processors in the order in which its `generate` applies them.

Leaves out: the draw itself (contract 2 of the design, tests/decoding).
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parity import toy_models
from transformers import (
    GenerationConfig,
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from specdec.sampling import Sampling, log_probs, sample_with

torch = toy_models.torch
pytestmark = pytest.mark.oracle

TEMPERATURES = (0.3, 1.0, 1.7)
TOP_K = (None, 1, 7, 5000)
TOP_P = (None, 0.05, 0.6, 0.95)
MIN_P = (None, 0.02, 0.3)
VOCABULARY = 1000


_log_probs = jax.jit(log_probs)


def filtered(logits: np.ndarray, settings: Sampling) -> np.ndarray:
    return np.asarray(_log_probs(jnp.asarray(logits), settings))


def warped(logits: np.ndarray, temperature: float, top_k, top_p, min_p) -> np.ndarray:
    steps = LogitsProcessorList([TemperatureLogitsWarper(temperature)])
    if top_k is not None:
        steps.append(TopKLogitsWarper(top_k))
    if top_p is not None:
        steps.append(TopPLogitsWarper(top_p))
    if min_p is not None:
        steps.append(MinPLogitsWarper(min_p))
    with torch.no_grad():
        return torch.log_softmax(steps(None, torch.from_numpy(logits)), dim=-1).numpy()


def assert_same(ours: np.ndarray, theirs: np.ndarray) -> None:
    np.testing.assert_array_equal(np.isfinite(ours), np.isfinite(theirs))
    kept = np.isfinite(theirs)
    np.testing.assert_allclose(ours[kept], theirs[kept], atol=2e-5)


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("spread", [0.5, 4.0])
def test_all_combinations(temperature: float, spread: float):
    """Flat and peaked rows; distinct logits, for at an exact tie transformers keeps both."""
    draw = np.random.default_rng(0)
    ranks = np.stack([draw.permutation(VOCABULARY) for _ in range(4)])
    logits = (ranks / VOCABULARY * 6 * spread + draw.uniform(0, 1e-3, ranks.shape)).astype(np.float32)
    for top_k, top_p, min_p in itertools.product(TOP_K, TOP_P, MIN_P):
        settings = sample_with(temperature, top_k=top_k, top_p=top_p, min_p=min_p)
        ours = filtered(logits, settings)
        assert_same(ours, warped(logits, temperature, top_k, top_p, min_p))


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.7, "top_k": 20, "top_p": 0.8, "min_p": 0.05},
        {"temperature": 1.5, "top_k": 40, "top_p": 0.9},
        {"temperature": 2.0, "top_p": 0.5, "min_p": 0.1},
        {"temperature": 3.0, "top_k": 30, "min_p": 0.2},
    ],
)
def test_the_order_is_that_of_generate(settings: dict):
    """Raw and processed logits as transformers' own `generate` reports them."""
    model = toy_models.reference("llama-tied")
    off = {"top_k": 0, "top_p": 1.0, "min_p": None}
    config = GenerationConfig(
        do_sample=True,
        max_new_tokens=6,
        eos_token_id=None,
        pad_token_id=0,
        output_logits=True,
        output_scores=True,
        return_dict_in_generate=True,
        **{**off, **settings},
    )
    torch.manual_seed(0)
    out = model.generate(torch.tensor([toy_models.prompt(8)]), generation_config=config)
    raw = torch.cat(out.logits).float().numpy()
    theirs = torch.log_softmax(torch.cat(out.scores).float(), dim=-1).numpy()
    ours = filtered(raw, sample_with(**settings))
    assert_same(ours, theirs)
