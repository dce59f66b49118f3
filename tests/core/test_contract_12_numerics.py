"""Ties go to the lowest id everywhere; a NaN is an error, in plain and speculative decoding alike."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core import battery, toys

import specdec
from specdec import strategies
from specdec.drafters import Script
from specdec.errors import NumericalError
from specdec.noise import Noise
from specdec.sampling import sample_with
from specdec.tree import root_only
from specdec.values import Context
from specdec.verifiers import Coupled, Greedy, TargetOnly


def twins(model):
    """The same model with every row of its head twice, and the ids that a tie must never give."""
    pairs = np.random.default_rng(5).permutation(toys.VOCAB).reshape(-1, 2)
    head = np.array(model.params.head)
    head[pairs[:, 1]] = head[pairs[:, 0]]
    params = model.params.replace(head=jnp.asarray(head))
    return dataclasses.replace(model, params=params), set(pairs.max(1).tolist())


@pytest.mark.parametrize("form", ["prompt_lookup", "draft_model", "draft_model_tree"])
def test_case_01b_identical_rows_of_the_head_give_the_lowest_id_everywhere(form):
    """Every step of the target ties, and so does every step of a draft model with such a head."""
    model, never = twins(toys.decoder())
    plain = dataclasses.replace(battery.plain_engine(5), model=model)
    want = toys.ids(toys.finish(plain, battery.run(plain, 24), battery.ROWS))[::3]
    assert not never & {token for ids in want for token in ids}
    engine = dataclasses.replace(battery.make_engine(form, 5), model=model)
    if form.startswith("draft_model"):
        draft, _ = twins(toys.small_drafter())
        strategy = dataclasses.replace(engine.strategy, drafter_params=draft.params)
        engine = dataclasses.replace(engine, strategy=strategy)
        _, done = engine.step(engine.prefill(battery.ROWS, 24, list(range(24))))
        first = set(np.asarray(done.tree.token)[:, 1].tolist())
        assert not never & first, "the best child of a tie is its lowest id"
    have = toys.ids(toys.finish(engine, battery.run(engine, 24), battery.ROWS))[::3]
    assert have == want


def test_case_01b_drafts_tie_to_the_lowest_id_too():
    """A flat draft model: its children are the lowest ids, in ascending order."""
    flat = toys.small_drafter()
    flat = dataclasses.replace(flat, params=flat.params.replace(head=jnp.zeros_like(flat.params.head)))
    engine = battery.make_engine("draft_model_tree", 5)
    strategy = dataclasses.replace(engine.strategy, drafter_params=flat.params)
    engine = dataclasses.replace(engine, strategy=strategy)
    _, done = engine.step(engine.prefill(battery.ROWS, 24, list(range(24))))
    assert (np.asarray(done.tree.token)[:, 1:] == [0, 1, 2, 0]).all()
    assert (np.asarray(done.tree.parent) == [-1, 0, 0, 0, 1]).all()


def test_contract_12_a_draft_model_that_makes_nan_drafts_nothing():
    """Its weights are no part of the output: plain's ids, and the reason is counted."""
    for form in ("draft_model", "draft_model_tree"):
        engine = battery.make_engine(form, 5)
        bad = toys.small_drafter().params
        bad = bad.replace(norm=jnp.full_like(bad.norm, jnp.nan))
        engine = dataclasses.replace(engine, strategy=dataclasses.replace(engine.strategy, drafter_params=bad))
        results = toys.finish(engine, battery.run(engine, toys.CAP), battery.ROWS)
        assert toys.ids(results) == toys.ids(battery.plain(5))
        assert all(result.drafted == 0 for result in results)
        assert results[0].fallbacks == {"nothing_proposed": toys.CAP - 2, "last_token": 1}


@functools.partial(jax.jit, static_argnames="verifier")
def walk(verifier, logits, settings):
    """The verdict on one node per row."""
    rows = logits.shape[0]
    context = Context(
        root=jnp.zeros((rows,), jnp.int32),
        length=jnp.zeros((rows,), jnp.int32),
        h0=jnp.zeros((rows, 1)),
        history=jnp.zeros((rows, 4), jnp.int32),
        limit=jnp.zeros((rows,), jnp.int32),
        live=jnp.ones((rows,), bool),
    )
    noise = Noise(jnp.arange(rows, dtype=jnp.uint32))
    return verifier.walk(logits.astype(jnp.float32)[:, None], root_only(context.root), context, settings, noise)


def test_contract_12_greedy_ties_at_every_place():
    """Two or more equal maxima anywhere: the lowest. Zeros of either sign are equal."""
    size, draw = 16, np.random.default_rng(3)
    logits = draw.uniform(-3, 2, (64, size)).astype(np.float32)
    want = []
    for row in range(64):
        places = np.sort(draw.choice(size, draw.integers(1, 5), replace=False))
        logits[row, places] = 9.0
        want.append(places[0])
    logits[0] = -1.0
    logits[0, 4], logits[0, 9] = -0.0, 0.0
    want[0] = 4
    verdict = walk(Greedy(), logits, sample_with())
    np.testing.assert_array_equal(verdict.bonus, want)
    assert not bool(verdict.nan.any())


@pytest.mark.parametrize("verifier", [Greedy(), Coupled(), TargetOnly()])
def test_contract_12_a_nan_is_seen_by_every_verifier(verifier):
    """One NaN among the logits, or nothing else; filters must not hide it."""
    logits = np.random.default_rng(0).standard_normal((4, 8))
    logits[1, 5] = np.nan
    logits[3] = np.nan
    warm = (sample_with(0.7), sample_with(0.7, top_k=2, top_p=0.9, min_p=0.1))
    for settings in (sample_with(),) if verifier.greedy else warm:
        assert np.asarray(walk(verifier, logits, settings).nan).tolist() == [False, True, False, True]


@functools.cache
def broken():
    """A table with one NaN, behind a pair of ids in the first block of a greedy row; the row and the pair's place."""
    for row in range(0, len(battery.ROWS), 3):
        result = battery.plain(8)[row]
        text = [0, *result.prompt_ids, *result.ids]
        pairs = list(itertools.pairwise(text))
        for place in range(3, 7):
            at = len(text) - len(result.ids) + place - 1
            fresh = result.ids[place] not in result.ids[:place] and result.ids[1] != result.ids[0]
            if fresh and pairs.index(pairs[at]) == at:
                params = toys.random_table().params.at[*pairs[at], 40].set(jnp.nan)
                return dataclasses.replace(toys.random_table(), params=params), row, place
    raise AssertionError("no such row")


@pytest.mark.parametrize("form", ["plain", "prompt_lookup", "scripted_tree"])
def test_case_17_nan_logits_raise_in_plain_and_speculative_alike(form):
    """An error at the next host boundary, naming row and position; without the row that meets it, none."""
    model, _, _ = broken()
    engine = battery.plain_engine(8) if form == "plain" else battery.make_engine(form, 8)
    engine = dataclasses.replace(engine, model=model)
    with pytest.raises(NumericalError, match=r"NaN \(row \d+, predicting position \d+\).*check the weights"):
        battery.run(engine, toys.CAP)


def test_case_17_the_error_names_row_and_position_and_streams_raise_it_too():
    model, row, place = broken()
    prompt = battery.ROWS[row]
    message = rf"row 0, predicting position {len(prompt) + place + 1}\)"
    for strategy in (None, strategies.prompt_lookup(8)):
        pieces = specdec.stream(model, list(prompt), strategy=strategy, max_new_tokens=toys.CAP)
        with pytest.raises(NumericalError, match=message):
            list(pieces)
        # A cap that ends before the NaN meets none of it.
        assert toys.decode(model, [prompt], strategy, cap=place + 1)[0].ids == battery.plain(8)[row].ids[: place + 1]


def test_case_17_nan_in_the_first_prediction_raises_too():
    base = toys.random_table()
    bad = dataclasses.replace(base, params=base.params.at[0, 5].set(jnp.nan))
    with pytest.raises(NumericalError, match=r"row 1, predicting position 1\)"):
        toys.decode(bad, [(6,), (5,)])


def test_case_17_a_nan_behind_a_stop_is_nobodys():
    """Plain decoding stops before it, so a round that has looked further must not raise either."""
    model, row, place = broken()
    whole = battery.plain(8)[row].ids
    strategy = toys.scripted(toys.answers([battery.plain(8)[row]]), 8, rows=[(Script.RIGHT, 0)])
    for stop in {whole[1], whole[place]}:
        for one in (None, strategy):
            result = toys.decode(model, [battery.ROWS[row]], one, stop_ids=(stop,))[0]
            assert result.ids == whole[: whole.index(stop) + 1]
    with pytest.raises(NumericalError):
        toys.decode(model, [battery.ROWS[row]], strategy)


def test_case_17_an_unvisited_branch_may_hold_a_nan():
    """Only what the target really says matters: the logits behind a rejected draft are nobody's."""
    base, rows = toys.random_table(), [0, 3]
    whole = [battery.plain(8)[row] for row in rows]
    said = set()
    for result in whole:
        text = [0, *result.prompt_ids, *result.ids]
        said |= set(itertools.pairwise(text))
    table = np.full(base.params.shape, np.nan, np.float32)
    for pair in said:
        table[pair] = np.asarray(base.params)[pair]
    sparse = dataclasses.replace(base, params=jnp.asarray(table))
    strategy = toys.scripted(toys.answers(whole), 5, tree=True, rows=toys.SCRIPTS[1:3])
    results = toys.decode(sparse, [battery.ROWS[row] for row in rows], strategy)
    assert toys.ids(results) == toys.ids(whole)
    assert all(result.drafted > result.accepted for result in results)
