"""Sampling settings have one normaliser, and its filters follow the documented order.

Leaves out: draws (`test_contract_02_sampling.py`); transformers' processors (`tests/parity`).
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core import oracles, toys

import specdec
from specdec import sampling
from specdec.errors import SettingsError

LOGITS = np.random.default_rng(0).standard_normal((3, 50)).astype(np.float32) * 3
probabilities = jax.jit(lambda logits, settings: jnp.exp(sampling.log_probs(logits, settings)))


@pytest.mark.parametrize("temperature", [0, 0.0, 1e-8, 1e-6])
def test_case_21_tiny_temperatures_are_greedy(temperature):
    settings = specdec.sample_with(temperature, top_k=3, top_p=0.5)
    assert settings.greedy and not settings.sorts
    model = toys.random_table()
    got = specdec.generate(model, [1, 2], sampling=settings, max_new_tokens=10, seed=3)
    assert got.ids == specdec.generate(model, [1, 2], max_new_tokens=10).ids


@pytest.mark.parametrize("temperature", [1e-5, 1e-4, 1e-3, 1.0, 100.0])
def test_case_21_no_temperature_overflows(temperature):
    settings = specdec.sample_with(temperature)
    assert not settings.greedy
    found = np.asarray(probabilities(jnp.asarray(LOGITS * 20), settings))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-5)


def test_case_21_temperature_alone_changes_the_draw():
    model = toys.random_table()
    outputs = {
        specdec.generate(model, [1, 2], sampling=specdec.sample_with(heat), max_new_tokens=20, seed=0).ids
        for heat in (0.3, 1.0, 3.0)
    }
    assert len(outputs) == 3


OFF = [{}, {"top_k": None}, {"top_k": 0}, {"top_k": -1}, {"top_k": 50}, {"top_k": 51}, {"top_p": 1.0}, {"min_p": 0.0}]


@pytest.mark.parametrize("off", OFF, ids=str)
def test_case_21_documented_off_values(off):
    want = np.exp(LOGITS - LOGITS.max(-1, keepdims=True))
    want /= want.sum(-1, keepdims=True)
    found = probabilities(jnp.asarray(LOGITS), specdec.sample_with(1.0, **off))
    np.testing.assert_allclose(np.asarray(found), want, rtol=1e-5)


@pytest.mark.parametrize("one", [{"top_k": 1}, {"top_p": 0.0}, {"top_p": 1e-9}, {"min_p": 1.0}], ids=str)
def test_case_21_the_best_id_always_survives(one):
    found = np.asarray(probabilities(jnp.asarray(LOGITS), specdec.sample_with(1.0, **one)))
    np.testing.assert_array_equal((found > 0).sum(-1), 1)
    np.testing.assert_array_equal(found.argmax(-1), LOGITS.argmax(-1))


BAD = [
    ("temperature", -0.1),
    ("temperature", float("nan")),
    ("temperature", "hot"),
    ("top_k", -2),
    ("top_k", 1.5),
    ("top_p", -0.1),
    ("top_p", 1.1),
    ("min_p", 2),
    ("min_p", True),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_case_21_bad_values_are_refused_by_name(name, value):
    with pytest.raises(SettingsError, match=name):
        specdec.sample_with(**{"temperature": 1.0, name: value})


@pytest.mark.parametrize("head", [8, 1024])
def test_filters_equal_the_oracle(head, monkeypatch):
    """Every combination, with the nucleus inside and beyond the ids that are tried first."""
    monkeypatch.setattr(sampling, "HEAD", head)
    fresh = jax.jit(lambda logits, settings: jnp.exp(sampling.log_probs(logits, settings)))
    for k, p, floor in itertools.product((None, 1, 7, 20), (None, 0.3, 0.95), (None, 0.02, 0.3)):
        found = np.asarray(fresh(jnp.asarray(LOGITS), specdec.sample_with(0.8, top_k=k, top_p=p, min_p=floor)))
        for row, logits in zip(found, LOGITS, strict=True):
            want = oracles.filtered(logits, 0.8, k, p, floor)
            np.testing.assert_allclose(row, want, rtol=2e-4, atol=1e-7, err_msg=f"{k} {p} {floor}")
