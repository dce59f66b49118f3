"""After every round a state equals a fresh prefill of the committed ids without the root.

Leaves out: windows and recurrent state, which do not exist yet.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from core import battery, toys
from core.battery import COMBINATIONS, plain, trace

from specdec import strategies
from specdec.cache import kind
from specdec.decoding import engine as engine_module
from specdec.drafters import Script

RELATIVE = 1e-4


@pytest.mark.parametrize(("form", "budget"), COMBINATIONS)
def test_contract_03_target_state_is_that_of_a_fresh_prefill(form, budget):
    for number, step in enumerate(trace(form, budget).steps):
        np.testing.assert_array_equal(step.cached, step.length, err_msg=f"round {number}")
        assert step.cache_error.max() < RELATIVE, (number, int(step.cache_error.argmax()))


@pytest.mark.parametrize(("form", "budget"), [c for c in COMBINATIONS if c[0].startswith("draft_model")])
def test_contract_03_draft_state_is_that_of_a_fresh_prefill(form, budget):
    """The draft model's own cache holds what the target's cache holds, fully accepted rounds included."""
    for number, step in enumerate(trace(form, budget).steps):
        np.testing.assert_array_equal(step.draft_cached, step.length, err_msg=f"round {number}")
        assert step.draft_error.max() < RELATIVE, (number, int(step.draft_error.argmax()))


def test_contract_03_a_prefill_of_each_prefix_says_the_same():
    """The traces compare with one prefill of the final text; here it is done as the contract says, prefix by prefix."""
    engine = battery.make_engine("scripted", 5)
    target, params = engine.model.target, engine.model.params
    text = toys.answers(plain(5), 128)
    state = engine.prefill(battery.ROWS, toys.CAP, list(range(len(battery.ROWS))))
    for _ in range(4):
        state, _ = engine.step(state)
        empty = target.init(len(text), 128)
        fresh = battery._prefill(target, params, empty, jnp.asarray(text, jnp.int32), state.context.length)
        np.testing.assert_array_equal(np.asarray(fresh.length), np.asarray(state.target.length))
        assert float(battery.cache_error(state.target, fresh).max()) < RELATIVE


@pytest.mark.parametrize(("form", "budget"), [("scripted", 16), ("scripted", 5), ("scripted_tree", 16)])
def test_contract_03_every_accept_count(form, budget):
    """Row by row right for k = 0, 1, ... up to full acceptance, and right on the second branch only."""
    engine = battery.make_engine(form, budget)
    rows = [(Script.RIGHT_FOR_K, k) for k in range(16)] + [(Script.SECOND_BRANCH, 0)] * 8
    strategy = toys.scripted(
        toys.answers(plain(budget)), budget, tree=form.endswith("tree"), rows=rows, verifier=toys.Each()
    )
    engine = dataclasses.replace(engine, strategy=strategy)
    text = toys.answers(plain(budget), 128)
    fresh = battery.fresh_state(engine.model.target, engine.model.params, text)
    state = engine.prefill(battery.ROWS, toys.CAP, list(range(len(battery.ROWS))))
    seen = set()
    while bool(state.running.any()):
        live = np.asarray(state.running)
        state, done = engine.step(state)
        seen |= {int(count) for count in np.asarray(done.acceptance.accepted)[live]}
        np.testing.assert_array_equal(np.asarray(state.target.length), np.asarray(state.context.length))
        assert float(battery.cache_error(state.target, fresh).max()) < RELATIVE
    assert seen >= set(range(budget if form == "scripted" else 5))
    assert toys.ids(toys.finish(engine, state, battery.ROWS)) == toys.ids(plain(budget))


def test_contract_03_whichever_prefix_of_the_cache_a_pass_reads(monkeypatch):
    """Smallest prefix 48: the lengths of the rows cross it in different rounds, in the middle of an accepted block."""
    monkeypatch.setattr(kind, "SMALLEST_PREFIX", 48)
    # A capacity of its own: compiled functions remember the prefixes they were traced with.
    monkeypatch.setattr(engine_module, "SMALLEST_CAPACITY", 32)
    assert kind.prefix_sizes(192) == (48, 96, 192)
    prompts, rows = toys.PROMPTS[5:8], [15, 18, 21]
    answer = toys.answers(plain(5))[rows]
    scripts = [(Script.RIGHT, 0), (Script.WRONG, 0), (Script.RIGHT_FOR_K, 2)]
    engine = toys.engine(toys.decoder(), toys.scripted(answer, 5, rows=scripts), capacity=96)
    fresh = battery.fresh_state(toys.decoder().target, toys.decoder().params, answer[:, :112])
    state = engine.prefill(prompts, toys.CAP, [0, 0, 0])
    while bool(state.running.any()):
        state, _ = engine.step(state)
        assert float(battery.cache_error(state.target, fresh).max()) < RELATIVE
    assert toys.ids(toys.finish(engine, state, prompts)) == [plain(5)[row].ids for row in rows]


@pytest.mark.parametrize("tree", [False, True])
def test_case_11_a_model_that_drafts_for_itself_is_always_right(tree, monkeypatch):
    """200 ids: any decay of acceptance would be a fault of the draft cache or of its positions."""
    monkeypatch.setattr(kind, "SMALLEST_PREFIX", 512)  # one prefix is enough here, and compiles faster
    model, prompt = toys.decoder(), toys.PROMPTS[5]
    want = toys.decode(model, [prompt], cap=200)[0]
    strategy = strategies.draft_model(model, 5, tree=tree, children=2)
    engine = toys.engine(model, strategy)
    state = engine.prefill([prompt], 200, [0])
    fresh = battery.fresh_state(model.target, model.params, toys.answers([want], 256))
    while bool(state.running.any()):
        state = engine.run_owned(state, 1)
        assert int(state.drafter.length[0]) == int(state.context.length[0])
        assert float(battery.cache_error(state.drafter, fresh).max()) < RELATIVE
    result = toys.finish(engine, state, [prompt])[0]
    assert result.ids == want.ids
    if not tree:
        assert all(record.accepted == record.deepest for record in result.rounds)
        assert result.target_passes == -(-199 // 5)
    else:
        # A best-first tree may end above the argmax chain's depth, but it always holds the argmax of its root.
        assert all(record.accepted >= min(1, record.drafted) for record in result.rounds)
        assert all(record.accepted > 0 for record in result.rounds[-5:])
