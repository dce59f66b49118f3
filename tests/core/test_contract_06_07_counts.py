"""Counters, caps, stop ids and finish reasons: everything agrees on one cut.

Most tests read runs of the battery. Leaves out: stop strings
(`test_case_05_stop_strings.py`).
"""

import dataclasses

import numpy as np
import pytest
from core import battery, toys
from core.battery import COMBINATIONS, Run, plain, trace

import specdec
from specdec import strategies
from specdec.decoding.collect import cut_rounds
from specdec.decoding.generate import generate
from specdec.decoding.result import FinishReason, RoundRecord, accepted_by_depth
from specdec.drafters import Script
from specdec.errors import SettingsError
from specdec.targets.decoder import Decoder

each_combination = pytest.mark.parametrize(("form", "budget"), COMBINATIONS)


def check_counters(result, budget):
    """Contract 6 on one result."""
    assert len(result.ids) == 1 + sum(record.committed for record in result.rounds)
    for record in result.rounds:
        assert record.committed == record.accepted + 1
        assert 0 <= record.accepted <= record.deepest <= record.drafted <= budget - 1
        assert (record.fallback is None) == (record.drafted > 0)
    assert result.target_passes == len(result.rounds)
    assert result.drafted == sum(record.drafted for record in result.rounds)
    assert result.accepted == sum(record.accepted for record in result.rounds) <= result.drafted
    if result.drafted:
        assert result.acceptance_rate == result.accepted / result.drafted
    else:
        assert result.acceptance_rate is None
    if result.rounds:
        assert result.tokens_per_pass == (len(result.ids) - 1) / len(result.rounds)
    else:
        assert result.tokens_per_pass is None


@each_combination
def test_contract_06_counters(form, budget):
    """Against the trees and paths of every round, counted here once more."""
    record = trace(form, budget)
    for row, result in enumerate(record.results):
        check_counters(result, budget)
        lived = [step for step in record.steps if step.live[row]]
        assert len(lived) == len(result.rounds)
        for step, counted in zip(lived, result.rounds, strict=True):
            assert counted.drafted == step.done.tree.valid[row].sum() - 1
            assert counted.deepest == step.done.tree.depth[row][step.done.tree.valid[row]].max()
            assert counted.committed == step.length[row] - step.before[row]
            path = step.done.acceptance.path[row, : counted.accepted + 1]
            assert path[0] == 0
            assert (step.done.tree.parent[row, path[1:]] == path[:-1]).all()
            assert step.done.tree.valid[row, path].all()
            start = step.before[row] + 1 - len(result.prompt_ids)
            said = result.ids[start : start + counted.committed]
            assert said == (*step.done.tree.token[row, path[1:]], step.root[row])


def test_contract_06_rates_by_depth_are_those_of_a_hand_count():
    rounds = [RoundRecord(3, 2, 3, 3), RoundRecord(3, 0, 1, 2), RoundRecord(0, 0, 1, 0, "last_token")]
    assert accepted_by_depth(rounds) == (1 / 2, 1 / 2, 0 / 1)
    assert accepted_by_depth([]) == ()
    assert accepted_by_depth(rounds[2:]) == ()


def test_contract_06_rounds_cut_by_a_stop_string_lose_what_was_cut():
    rounds = [RoundRecord(4, 4, 5, 4), RoundRecord(4, 2, 3, 4), RoundRecord(4, 4, 5, 4)]
    assert cut_rounds(rounds, 1) == ()
    assert cut_rounds(rounds, 6) == (rounds[0],)
    assert cut_rounds(rounds, 7) == (rounds[0], dataclasses.replace(rounds[1], accepted=0, committed=1))
    assert cut_rounds(rounds, 14) == tuple(rounds)


@each_combination
def test_case_06_exactly_the_cap(form, budget):
    """1, 2, and around one and two blocks; some rows of a script are always right."""
    for cap in battery.caps(budget):
        for row, result in enumerate(trace(form, budget).runs[Run(cap)]):
            assert result.ids == plain(budget)[row].ids[:cap]
            assert (result.finish_reason, result.detail) == (FinishReason.LENGTH, "max_new_tokens")
            check_counters(result, budget)
            # Nothing is drafted that the cap would cut.
            produced = 1
            for record in result.rounds:
                assert record.deepest <= cap - produced - 1
                produced += record.committed


def test_case_06_a_cap_of_nothing_runs_no_target(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("the target ran")

    monkeypatch.setattr(Decoder, "prefill", refuse)
    monkeypatch.setattr(Decoder, "verify", refuse)
    for strategy in (None, strategies.prompt_lookup(8), strategies.draft_model(toys.small_drafter())):
        for prompt in ([1, 2], [[1, 2], [3]]):
            made = generate(toys.decoder(), prompt, strategy=strategy, max_new_tokens=0, seed=4)
            for result in made if isinstance(made, list) else [made]:
                assert (result.ids, result.text, result.rounds) == ((), "", ())
                assert (result.finish_reason, result.detail) == (FinishReason.LENGTH, "max_new_tokens")
                assert result.acceptance_rate is None and result.tokens_per_pass is None
            pieces = list(specdec.stream(toys.decoder(), [1, 2], strategy=strategy, max_new_tokens=0))
            assert [piece.ids for piece in pieces] == [()] and pieces[0].result.ids == ()


@pytest.mark.parametrize("cap", [-1, True, 1.5, None, "3"])
def test_case_06_bad_caps_are_refused(cap):
    for call in (generate, specdec.stream):
        with pytest.raises(SettingsError, match="max_new_tokens"):
            call(toys.decoder(), [1], max_new_tokens=cap)
    with pytest.raises(SettingsError, match="max_new_tokens"):
        toys.engine(toys.decoder()).prefill([[1]], 0 if cap is None else cap)


@each_combination
def test_case_03_a_stop_id_at_every_place_of_a_block(form, budget):
    """Ids of the first two blocks in turn are declared a stop: first, middle, last draft, bonus."""
    for place in battery.STOP_PLACES[budget]:
        stop = battery.stop_at(budget, place)
        for row, result in enumerate(trace(form, budget).runs[Run(battery.STOP_CAP, stop)]):
            whole = plain(budget)[row].ids[: battery.STOP_CAP]
            cut = whole.index(stop) + 1 if stop in whole else len(whole)
            assert result.ids == whole[:cut], (row, stop)
            expected = (FinishReason.STOP, str(stop)) if stop in whole else (FinishReason.LENGTH, "max_new_tokens")
            assert (result.finish_reason, result.detail) == expected
            check_counters(result, budget)


@pytest.mark.parametrize("form", ["scripted", "scripted_tree"])
def test_case_03_the_stop_sits_wherever_one_block_has_a_place(form):
    """A right draft of seven: each of its ids and the bonus in turn; nothing is drafted afterwards."""
    budget, row = 8, battery.RIGHT_ROW
    whole = plain(budget)[row].ids
    first = trace(form, budget).results[row].rounds[0]
    assert first.accepted == (budget - 1 if form == "scripted" else first.deepest)
    places = [place for place in battery.first_places(budget) if place <= first.committed]
    assert len(places) >= 3
    for place in places:
        result = trace(form, budget).runs[Run(battery.STOP_CAP, whole[place])][row]
        assert result.ids == whole[: place + 1]
        assert result.target_passes == min(place, 1)
        assert result.accepted == max(place - 1, 0)


def test_contract_07_the_earliest_stop_wins_and_several_may_be_given():
    whole, prompt = plain(8)[0].ids, battery.ROWS[0]
    late, early = whole[6], whole[2]
    assert whole.index(late) > whole.index(early)
    strategy = strategies.prompt_lookup(8)
    result = toys.decode(toys.random_table(), [prompt], strategy, stop_ids=(late, early, 5))[0]
    assert result.ids == whole[: whole.index(early) + 1] and result.detail == str(early)


@pytest.mark.parametrize("form", toys.FORMS)
def test_contract_07_ties_between_stop_and_cap_go_to_the_stop(form):
    """The last id that the cap allows is a stop id: inside a block, at its end, and as the prefill's own id."""
    budget, row = 8, battery.RIGHT_ROW
    whole, runs = plain(budget)[row].ids, trace(form, budget).runs
    for place in battery.first_places(budget):
        stop = whole[place]
        result = runs[Run(place + 1, stop)][row]
        assert result.ids == whole[: place + 1]
        assert (result.finish_reason, result.detail) == (FinishReason.STOP, str(stop))
        if place:
            shorter = runs[Run(place, stop)][row]
            assert (shorter.ids, shorter.finish_reason) == (whole[:place], FinishReason.LENGTH)


def test_case_07_a_users_stop_ids_replace_the_models():
    model = dataclasses.replace(toys.random_table(), stop_ids=(plain(8)[0].ids[3],))
    whole, prompt = plain(8)[0].ids, battery.ROWS[0]
    stop = whole.index(model.stop_ids[0]) + 1

    def ids(**settings):
        return toys.decode(model, [prompt], strategies.prompt_lookup(8), **settings)[0].ids

    assert ids() == whole[:stop]
    assert ids(stop_ids=()) == whole
    other = whole[6]
    assert ids(stop_ids=(other,)) == whole[: whole.index(other) + 1]
    # More stop ids than the smallest table of them has room for.
    many = tuple(i for i in range(10, 60) if i not in whole)
    result = toys.decode(model, [prompt], stop_ids=(*many, other))[0]
    assert result.ids == whole[: whole.index(other) + 1]


def test_case_02_the_first_draft_is_checked_and_the_prefills_token_counts():
    """Prompt [1, 1, 1]: lookup proposes 1, the target says 2."""
    logits = np.full((toys.VOCAB, toys.VOCAB), -5.0)
    logits[1, 2], logits[2, 3], logits[3, 1] = 5, 5, 5
    model = toys.table(logits)
    strategy = strategies.prompt_lookup(8)
    assert toys.decode(model, [(1, 1, 1)], strategy, cap=1)[0].ids == (2,)
    result = toys.decode(model, [(1, 1, 1)], strategy, cap=7)[0]
    assert result.ids == (2, 3, 1, 2, 3, 1, 2)
    assert result.ids == toys.decode(model, [(1, 1, 1)], cap=7)[0].ids
    engine = toys.engine(model, strategy)
    wrong = np.full((toys.VOCAB, toys.VOCAB), -5.0)
    wrong[1, 2], wrong[2, 2] = 5, 5
    state = dataclasses.replace(engine, model=toys.table(wrong)).prefill([(1, 2, 1, 1)], 4, [0])
    state, done = dataclasses.replace(engine, model=toys.table(wrong)).step(state)
    # Root 2 was followed by 1 in the prompt, so that is drafted; the target says 2.
    assert np.asarray(done.tree.token)[0, :2].tolist() == [2, 1] and bool(done.tree.valid[0, 1])
    assert int(done.acceptance.accepted[0]) == 0 and int(done.acceptance.bonus[0]) == 2
    stopped = toys.decode(model, [(1, 1, 1)], strategy, stop_ids=(2,))[0]
    assert stopped.ids == (2,) and stopped.finish_reason is FinishReason.STOP and stopped.rounds == ()


@pytest.mark.parametrize("form", toys.FORMS)
def test_case_08_near_capacity_the_tree_shrinks_then_plain_steps(form):
    """Capacity prompt + 6, budget 16: the same ids as plain, reason length, nothing beyond the room."""
    crowd = Run(toys.CAP, capacity=battery.CROWDED)
    results = trace(form, 16).runs[crowd]
    assert (trace(form, 16).lengths[crowd] <= battery.CROWDED).all()
    for row, result in enumerate(results):
        room = battery.CROWDED - len(battery.ROWS[row]) + 1
        assert result.ids == plain(16)[row].ids[: min(room, toys.CAP)]
        assert result.finish_reason is FinishReason.LENGTH
        if room != toys.CAP:
            assert result.detail == ("capacity" if room < toys.CAP else "max_new_tokens")
        check_counters(result, 16)
        at = len(battery.ROWS[row])
        for record in result.rounds:
            assert at + record.deepest < battery.CROWDED, "a drafted node would have no place in the cache"
            at += record.committed
    # Rows 15 to 17 have the longest prompt.
    assert [len(result.ids) for result in results[15:18]] == [7, 7, 7]


def test_case_08_near_capacity_is_named_as_the_reason():
    model, prompt = toys.random_table(), battery.ROWS[0]
    whole = plain(8)[0].ids
    strategy = toys.scripted(toys.answers([plain(8)[0]]), 8, rows=[(Script.WRONG, 0)])
    result = toys.decode(model, [prompt], strategy, capacity=len(prompt) + 6)[0]
    assert result.ids == whole[:7]
    assert [record.drafted for record in result.rounds] == [5, 4, 3, 2, 1, 0]
    assert result.fallbacks == {"near_capacity": 1}


def test_case_08_a_drafter_past_its_own_positions_is_switched_off():
    """Draft model made for 24 positions, target for many: plain's ids, and the reason is counted."""
    draft = toys.decoder(1, num_layers=1, hidden_size=16, num_heads=2, num_kv_heads=1, head_dim=8, max_positions=24)
    model, prompt = toys.random_table(), toys.PROMPTS[6]
    result = toys.decode(model, [prompt], strategies.draft_model(draft, 5))[0]
    assert result.ids == plain(8)[18].ids
    assert result.drafted > 0
    at = len(prompt)
    for record in result.rounds:
        assert at + record.deepest <= 23 or record.drafted == 0
        assert (record.fallback == "drafter_limit") == (at >= 23 and record.fallback != "last_token")
        at += record.committed
    assert result.fallbacks["drafter_limit"] >= len(result.ids) - 24
    long = toys.decode(model, [toys.PROMPTS[5]], strategies.draft_model(draft, 5))[0]
    assert long.ids == plain(8)[15].ids and long.drafted == 0
    assert "nothing was ever drafted" in long.summary() and "drafter_limit" in long.summary()


@pytest.mark.parametrize("capacity", [40, 3, 1, 0, -5])
def test_case_08_a_prompt_without_room_for_an_answer_is_refused(capacity):
    with pytest.raises(SettingsError, match="capacity"):
        generate(toys.decoder(), list(toys.PROMPTS[5]), capacity=capacity)
    with pytest.raises(SettingsError, match="capacity"):
        specdec.stream(toys.decoder(), list(toys.PROMPTS[5]), capacity=capacity)


def test_contract_07_prompts_longer_than_the_model_are_refused():
    short = toys.decoder(1, num_layers=1, max_positions=24)
    with pytest.raises(SettingsError, match="24 positions"):
        generate(short, list(toys.PROMPTS[5]))
