"""No id is reserved, and ids at or above the tokenizer's size are never proposed nor produced."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from core import battery, toys
from core.battery import WARM

from specdec import strategies
from specdec.drafters import Script
from specdec.errors import CompatibilityError, SettingsError
from specdec.sampling import log_probs, sample_with

LIMIT = 60
LAST = toys.VOCAB - 1


def test_contract_08_the_first_and_the_last_id_are_ids_like_any_other():
    """A text of nothing but ids 0 and 63: prompted, drafted, accepted, returned."""
    logits = np.full((toys.VOCAB, toys.VOCAB), -5.0)
    logits[0, LAST], logits[LAST, 0] = 5, 5
    model = toys.table(logits)
    prompt = (0, LAST, 0, LAST)
    want = (0, LAST) * 10
    assert toys.decode(model, [prompt], cap=20)[0].ids == want
    for strategy in (strategies.prompt_lookup(8), toys.scripted(toys.answers(toys.decode(model, [prompt])), 5)):
        result = toys.decode(model, [prompt], strategy, cap=20)[0]
        assert result.ids == want
        assert result.accepted > 10


def test_contract_08_the_batterys_texts_hold_both_ends_of_the_vocabulary():
    """So every strategy of the battery has drafted, accepted and returned them."""
    said = {token for result in battery.plain(8) for token in result.ids}
    assert {0, LAST} <= said
    step = battery.trace("prompt_lookup", 8)
    accepted = set()
    for one in step.steps:
        for row in np.flatnonzero(one.live):
            kept = one.done.acceptance.path[row, 1 : one.done.acceptance.accepted[row] + 1]
            accepted |= set(one.done.tree.token[row, kept].tolist())
    assert {0, LAST} <= accepted


@pytest.mark.parametrize("stop", [0, LAST])
def test_contract_08_any_id_may_be_a_stop_id(stop):
    whole = battery.plain(8)
    row = next(number for number in range(0, 24, 3) if stop in whole[number].ids)
    cut = whole[row].ids[: whole[row].ids.index(stop) + 1]
    assert toys.decode(toys.random_table(), [battery.ROWS[row]], stop_ids=(stop,))[0].ids == cut
    # Padding of the stop table is no id: without stop ids nothing stops.
    assert toys.decode(toys.random_table(), [battery.ROWS[row]], stop_ids=())[0].ids == whole[row].ids


def loud(model):
    """The same model with rows of the head beyond the limit that win every argmax and most draws."""
    head = model.params.head.at[LIMIT:].multiply(20.0)
    return dataclasses.replace(model, params=model.params.replace(head=head))


def limited(model):
    return dataclasses.replace(model, target=dataclasses.replace(model.target, vocab_limit=LIMIT))


def test_contract_08_padded_rows_of_a_decoders_head_have_no_logit():
    model = loud(toys.decoder())
    hidden = jnp.asarray(np.random.default_rng(0).standard_normal((2, 3, model.target.hidden_size)), jnp.float32)
    assert (np.asarray(model.target.logits(model.params, hidden)).argmax(-1) >= LIMIT).any()
    logits = np.asarray(limited(model).target.logits(model.params, hidden))
    assert (logits[..., LIMIT:] == -np.inf).all() and np.isfinite(logits[..., :LIMIT]).all()


def test_contract_08_padded_rows_of_the_head_are_never_produced():
    """Greedy and sampled, plain and speculative; the padded ids would win in the target and in the draft model."""
    table = np.array(toys.random_table().params)
    table[..., LIMIT:] += 30
    target = toys.table(table, vocab_limit=LIMIT)
    draft = loud(toys.small_drafter())
    rows = [prompt for prompt in battery.ROWS if max(prompt) < LIMIT]
    each = toys.Each()
    plain = toys.ids(toys.decode(target, rows, strategies.plain(verifier=each), sampling=WARM, cap=24))
    assert max(max(ids) for ids in plain) < LIMIT
    strategy = strategies.draft_model(draft, 5, vocab_limit=LIMIT, verifier=each)
    engine = toys.engine(target, strategy, WARM)
    state = engine.prefill(rows, 24, list(range(len(rows))))
    while bool(state.running.any()):
        state, done = engine.step(state)
        drafted = np.asarray(done.tree.token)[np.asarray(done.tree.valid)]
        assert drafted.max() < LIMIT
    assert toys.ids(toys.finish(engine, state, rows)) == plain


def test_contract_08_a_draft_model_with_more_ids_than_the_target_is_refused():
    target = limited(toys.decoder())
    with pytest.raises(CompatibilityError, match=r"63.*knows 60.*vocab"):
        toys.engine(target, strategies.draft_model(toys.small_drafter(), 5))
    # With the limit it is accepted.
    toys.engine(target, strategies.draft_model(toys.small_drafter(), 5, vocab_limit=LIMIT))


def test_contract_08_prompt_lookup_proposes_no_id_beyond_the_limit():
    """Even if such an id stands in the prompt: what followed it is not proposed either."""
    model = toys.table(np.zeros((toys.VOCAB, toys.VOCAB)), vocab_limit=LIMIT)
    engine = toys.engine(model, strategies.prompt_lookup(8))
    # The root will be id 0, which 61 followed here and 5 there.
    state = engine.prefill([(9, 0, 61, 7, 0, 5, 8, 9)], 9, [0])
    state, done = engine.step(state)
    drafted = np.asarray(done.tree.token)[np.asarray(done.tree.valid)]
    assert drafted.tolist()[:3] == [0, 5, 8]
    assert not {61, 7} & set(drafted.tolist()[:2])
    assert drafted.max() < LIMIT


@pytest.mark.parametrize("prompt", [[64], [-1], [3, 1000]])
def test_contract_08_ids_outside_the_vocabulary_are_refused(prompt):
    with pytest.raises(SettingsError, match="outside the vocabulary"):
        toys.decoder().encode(prompt)
    with pytest.raises(SettingsError, match="empty"):
        toys.decoder().encode([])


@pytest.mark.parametrize("settings", [{"top_k": 1}, {"top_p": 0.0}, {"min_p": 1.0}, {"top_k": 40}])
def test_contract_08_no_filter_brings_a_padded_id_back(settings):
    """Filters that keep "at least one" must not keep an id without a logit."""
    logits = np.full(toys.VOCAB, -1e4)
    logits[7] = -1e4 + 50
    logits[LIMIT:] = -np.inf
    p = np.exp(np.asarray(log_probs(jnp.asarray(logits, jnp.float32), sample_with(1.0, **settings))))
    assert p[7] > 0.999 and (p[LIMIT:] == 0).all()


def test_contract_08_wrong_scripts_use_the_whole_vocabulary():
    """A guard of the toys: random drafts reach every id."""
    answer = np.zeros((24, 512), np.int32)
    strategy = toys.scripted(answer, 8, rows=[(Script.RANDOM, 0)] * 24, verifier=toys.Each())
    engine = toys.engine(toys.random_table(), strategy, WARM)
    state, seen = engine.prefill(battery.ROWS, toys.CAP, list(range(24))), set()
    for _ in range(12):
        state, done = engine.step(state)
        seen |= set(np.asarray(jnp.where(done.tree.valid, done.tree.token, 0)).ravel().tolist())
    assert seen == set(range(toys.VOCAB))
