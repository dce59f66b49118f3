import dataclasses

import numpy as np
import pytest
from analysis import small

from specdec import strategies
from specdec.analysis.running import run_once
from specdec.analysis.ties import BOUNDS, first_difference, is_exact, is_tie, judge
from specdec.decoding.engine import Engine
from specdec.model import Model
from specdec.sampling import sample_with
from specdec.verifiers import Coupled, TargetOnly

CAP = 24


@pytest.mark.parametrize(
    ("left", "right", "at"),
    [((1, 2), (1, 2), None), ((1, 2), (1, 3), 1), ((1, 2), (1, 2, 3), 2), ((), (5,), 0), ((), (), None)],
)
def test_first_difference(left, right, at):
    assert first_difference(left, right) == at


def test_rule():
    assert is_tie(1e-6, 1e-6)
    assert not is_tie(1e-6, 4e-7), "the passes agree better than the gap: something else changed the id"
    assert not is_tie(2e-3, 1.0), "no rounding of fp32 reaches so far, however much the passes differ"
    assert is_tie(2e-2, 2e-2, "bfloat16")
    assert is_tie(0.0, 1e-9)
    assert not is_tie(0.0, 0.0), "passes that agree exactly do not flip an id"
    assert BOUNDS["float32"] == 1e-3


def twins(model: Model, first: int, second: int) -> Model:
    """The same model with one head row copied to another id: their logits are always equal."""
    head = np.asarray(model.params.head).copy()
    head[second] = head[first]
    return dataclasses.replace(model, params=model.params.replace(head=head))


def pair(model: Model, strategy, settings=None):
    """Plain decoding's and a strategy's engine, the prompt, and plain decoding's result."""
    settings = settings or sample_with()
    plain, engine = (Engine(model, each, settings, capacity=512) for each in (strategies.plain(), strategy))
    return plain, engine, run_once(plain, model.encode(small.PROMPT), CAP, 0)


def other(result, at: int, token: int):
    """The result with another id at one place, as a flipped argmax would leave it."""
    ids = (*result.ids[:at], token, *result.ids[at + 1 :])
    return dataclasses.replace(result, ids=ids)


def test_equal_outputs_have_no_difference():
    plain, engine, expected = pair(small.model(), strategies.prompt_lookup(4))
    assert judge("p", plain, engine, expected, expected) is None


@pytest.mark.parametrize("at", [0, 1, 9, CAP - 1])
def test_another_id_is_no_tie(at):
    plain, engine, expected = pair(small.model(), strategies.prompt_lookup(4))
    came = run_once(engine, model_ids(), CAP, 0)
    assert came.ids == expected.ids
    found = judge("p", plain, engine, expected, other(came, at, (came.ids[at] + 1) % small.VOCAB))
    assert (found.prompt, found.position, found.tie) == ("p", at, False)
    assert found.gap > 1e-3
    assert found.spread < 1e-3, "a clean prefix: both passes compute the same thing"


def model_ids():
    return small.model().encode(small.PROMPT)


@pytest.mark.parametrize("strategy", [strategies.prompt_lookup(4), strategies.prompt_lookup(8, tree=False)])
def test_equal_logits_make_a_tie(strategy):
    at = 12
    token = run_once(pair(small.model(), strategy)[0], model_ids(), CAP, 0).ids[at]
    twin = (token + 1) % small.VOCAB
    model = twins(small.model(), token, twin)
    plain, engine, expected = pair(model, strategy)
    came = run_once(engine, model_ids(), CAP, 0)
    place = expected.ids.index(min(token, twin))
    found = judge("p", plain, engine, expected, other(came, place, max(token, twin)))
    assert (found.position, found.gap) == (place, 0.0)
    assert found.spread < 1e-4
    assert found.tie == (found.spread > 0)


def test_output_that_ends_early_is_no_tie():
    plain, engine, expected = pair(small.model(), strategies.prompt_lookup(4))
    found = judge("p", plain, engine, expected, dataclasses.replace(expected, ids=expected.ids[:5]))
    assert (found.position, found.gap, found.tie) == (5, None, False)


def test_sampled_scores_hold_the_noise():
    """With log p alone the drawn id would often not be the best one."""
    settings = sample_with(1.0)
    plain, engine, expected = pair(small.model(), strategies.prompt_lookup(4), settings)
    came = run_once(engine, model_ids(), CAP, 0)
    assert came.ids == expected.ids
    for at in (0, 3, 10):
        found = judge("p", plain, engine, expected, other(came, at, (came.ids[at] + 1) % small.VOCAB))
        assert found.gap > 0
        assert not found.tie


def test_verifier_with_its_own_randomness_need_not_repeat():
    model, settings = small.model(), sample_with(1.0)
    coupled, own = (
        Engine(model, strategies.prompt_lookup(4, verifier=verifier), settings)
        for verifier in (Coupled(), TargetOnly())
    )
    plain = Engine(model, strategies.plain(), settings)
    assert is_exact(coupled, plain)
    assert not is_exact(own, plain)
