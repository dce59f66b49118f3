"""A row of a batch equals the row alone, whatever its neighbours do; finished rows stay as they are."""

import numpy as np
import pytest
from core import battery, toys
from core.battery import COMBINATIONS, plain, trace

from specdec import strategies
from specdec.decoding import loop
from specdec.decoding.result import FinishReason


def one_row(form: str, row: int, budget: int = 5):
    """The default greedy policy of a form for one row of the battery."""
    answer = toys.answers([plain(budget)[row]]) if form.startswith("scripted") else None
    if form.startswith("scripted"):
        scripts = [toys.SCRIPTS[row // 3]]
        return toys.scripted(answer, budget, tree=form.endswith("tree"), rows=scripts)
    return toys.FORMS[form](budget, answer)


@pytest.mark.parametrize("form", ["prompt_lookup", "draft_model", "scripted_tree"])
def test_contract_05_a_row_alone_is_the_row_in_the_batch(form):
    """Prompts of one id and of many, drafts always right and always wrong: ids and every round agree."""
    for row in range(0, len(battery.ROWS), 3):
        alone = toys.decode(toys.decoder(), [battery.ROWS[row]], one_row(form, row), seeds=[row])[0]
        beside = trace(form, 5).results[row]
        assert alone.ids == beside.ids
        assert alone.rounds == beside.rounds
        assert alone.finish_reason == beside.finish_reason


@pytest.mark.parametrize(("form", "budget"), COMBINATIONS)
def test_contract_05_finished_rows_change_nothing_and_do_not_count(form, budget):
    """Every bit that a row keeps, from the round in which it ends to the end of the batch."""
    steps, results = trace(form, budget).steps, trace(form, budget).results
    for row in range(len(battery.ROWS)):
        ended = next(number for number, step in enumerate(steps) if step.reason[row] != 0)
        assert results[row].target_passes == ended + 1
        for step in steps[ended + 1 :]:
            assert not step.live[row]
            assert step.digest[row] == steps[ended].digest[row]
            assert step.done.acceptance.committed[row] == 0 and step.done.fallback[row] == 0


def test_contract_05_rows_do_end_at_different_times():
    """Otherwise the test above looks at nothing."""
    ends = {result.target_passes for result in trace("scripted", 16).results}
    assert len(ends) >= 4


def test_case_36_four_rows_always_right_always_wrong_stopping_early_and_of_one_id():
    """Few enough rows that the cache writes them one by one; the battery's 24 are written in a loop."""
    rows = [3, 6, 21, 0]
    prompts = [battery.ROWS[row] for row in rows]
    scripts = [toys.SCRIPTS[0], toys.SCRIPTS[1], toys.SCRIPTS[0], toys.SCRIPTS[5]]
    strategy = toys.scripted(toys.answers([plain(5)[row] for row in rows]), 5, tree=True, rows=scripts)
    want = [plain(5)[row].ids for row in rows]
    whole = toys.decode(toys.decoder(), prompts, strategy)
    assert toys.ids(whole) == want
    early = want[2][4]
    assert early not in want[2][:4] and any(early not in ids for ids in want)
    stopped = toys.decode(toys.decoder(), prompts, strategy, stop_ids=(early,))
    for ids, result, uncut in zip(want, stopped, whole, strict=True):
        cut = ids.index(early) + 1 if early in ids else len(ids)
        assert result.ids == ids[:cut]
        assert result.finish_reason is (FinishReason.STOP if early in ids else FinishReason.LENGTH)
        if early not in ids:
            assert result.rounds == uncut.rounds


def test_contract_05_the_three_ways_to_run_a_round_agree():
    """By hand, by the loop, and by the loop that reuses its buffers; the caller's state stays what it was."""
    engine = toys.engine(toys.decoder(), strategies.prompt_lookup(5))
    start = engine.prefill([battery.ROWS[3]], toys.CAP, [0])
    before = np.asarray(battery.digest(start))
    by_hand = start
    while bool(by_hand.running.any()):
        by_hand, _ = engine.step(by_hand)
    at_once = engine.run(start)
    in_parts = engine.run(engine.run(start, 3), 2)
    in_parts = loop.run(engine.plan, engine.params, in_parts, at_once.round)
    assert np.asarray(battery.digest(start)) == before
    owned = engine.run_owned(start)
    for state in (at_once, in_parts, owned):
        np.testing.assert_array_equal(battery.digest(state), battery.digest(by_hand))
        assert int(state.round) == int(by_hand.round)
