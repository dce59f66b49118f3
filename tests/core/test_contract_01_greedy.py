"""Greedy output is that of plain decoding, token for token.

Leaves out: ties by decree (`test_contract_12_numerics.py`).
"""

import dataclasses

import jax
import numpy as np
import pytest
from core import battery, oracles, toys
from core.battery import COMBINATIONS, plain, trace

from specdec import strategies
from specdec.builders import BestFirst, Chain
from specdec.decoding import loop
from specdec.drafters import Script
from specdec.tree import Tree, validate

GREEDY = range(0, len(battery.ROWS), 3)
each_combination = pytest.mark.parametrize(("form", "budget"), COMBINATIONS)


def test_contract_01_plain_decoding_says_the_argmax_of_the_whole_text():
    """The reference itself, against an independent forward pass in float64."""
    config, params = toys.decoder().target.config, toys.decoder().params
    for result in plain(5)[::3]:
        text = [*result.prompt_ids, *result.ids]
        logits, _, _ = oracles.forward(config, params, text[:-1])
        said = logits[len(result.prompt_ids) - 1 :]
        assert tuple(said.argmax(-1)) == result.ids
        best = np.sort(said, axis=-1)
        assert (best[:, -1] - best[:, -2]).min() > 1e-4, "the toy must not tie, or this test proves nothing"


@each_combination
def test_contract_01_greedy_identity(form, budget):
    results = trace(form, budget).results
    for row in GREEDY:
        assert results[row].ids == plain(budget)[row].ids, (row, results[row].prompt_ids)
        assert results[row].finish_reason == plain(budget)[row].finish_reason


@each_combination
def test_contract_01_the_battery_really_speculates(form, budget):
    """Scripts are accepted as far as they are right: otherwise identity would be cheap."""
    results = trace(form, budget).results
    assert all(len(result.ids) == toys.CAP for result in results)
    if budget == 1:
        assert all(result.drafted == 0 and result.target_passes == toys.CAP - 1 for result in results)
    elif form == "scripted":
        full = [record for result in results[:3] for record in result.rounds if record.deepest == budget - 1]
        assert full and all(record.accepted == budget - 1 for record in full)
        for row, k in ((6, 1), (9, 2), (12, 4)):
            for record in results[row].rounds:
                assert record.accepted == min(k, record.deepest)
        assert all(record.accepted == 0 for result in results[3:6] for record in result.rounds)
    elif form == "scripted_tree" and budget > 2:
        assert sum(result.accepted for result in results[15:18]) > 0, "the second branch was never taken"
    elif form.startswith("prompt_lookup"):
        assert sum(result.accepted for result in results) > 0
    assert (sum(result.drafted for result in results) > 0) == (budget > 1)


@each_combination
def test_contract_01_trees_are_well_formed(form, budget):
    """Of every round: topological, distinct siblings, no deeper than what can still be committed."""
    for step in trace(form, budget).steps:
        tree = step.done.tree
        rows = np.flatnonzero(step.live)
        validate(jax.tree.map(lambda leaf, rows=rows: leaf[rows], tree))
        deepest = np.where(tree.valid, tree.depth, 0).max(1)
        produced = step.before + 1 - np.asarray([len(row) for row in battery.ROWS])
        assert (deepest[rows] <= (toys.CAP - produced - 1)[rows]).all()


@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("form", ["draft_model", "draft_model_tree"])
def test_contract_01_whatever_the_draft_weights(form, seed):
    engine = battery.make_engine(form, 5)
    other = dataclasses.replace(engine.strategy, drafter_params=toys.small_drafter(seed).params)
    engine = dataclasses.replace(engine, strategy=other)
    results = toys.finish(engine, battery.run(engine, toys.CAP), battery.ROWS)
    assert toys.ids(results) == toys.ids(plain(5))
    drafted = trace(form, 5).steps[0].done.tree.token[:, 1:]
    _, done = engine.step(engine.prefill(battery.ROWS, toys.CAP, list(range(len(battery.ROWS)))))
    assert (np.asarray(done.tree.token)[:, 1:] != drafted).any(), "the weights made no difference to the drafts"


def test_case_01a_every_verification_width_says_the_same():
    """Always-wrong drafts against a cap: the tree shrinks by one node a round, and so does the pass.

    These are widths that the battery lacks.
    """
    model, prompts, sizes = toys.decoder(num_layers=1), toys.PROMPTS[2:4], (3, 4, 6, 7, 10, 13)
    want = toys.decode(model, prompts, cap=20)
    engine = toys.engine(model, toys.scripted(toys.answers(want), 16, rows=[(Script.WRONG, 0)] * 2))
    state = engine.prefill(prompts, 20, [0, 0])
    plan = dataclasses.replace(engine.plan, sizes=sizes)
    nodes = set()
    while bool(state.running.any()):
        state, done = loop.step_once(plan, engine.params, state)
        nodes.add(int(np.asarray(done.tree.valid).sum(1).max()))
    assert nodes == set(range(1, 17))
    assert toys.ids(toys.finish(engine, state, prompts)) == toys.ids(want)


def test_case_15_a_tree_of_one_child_per_node_is_the_chain():
    """Round by round: the same nodes, the same accepted path."""
    chain = battery.make_engine("draft_model", 5)
    one = strategies.draft_model(toys.small_drafter(), 5, tree=True, children=1, verifier=toys.Each())
    assert isinstance(one.policy.builder, BestFirst) and isinstance(chain.strategy.policy.builder, Chain)
    tree = dataclasses.replace(chain, strategy=one)
    rows = list(range(len(battery.ROWS)))
    left, right = chain.prefill(battery.ROWS, 12, rows), tree.prefill(battery.ROWS, 12, rows)
    while bool(left.running.any()):
        left, a = chain.step(left)
        right, b = tree.step(right)
        live = np.asarray(a.acceptance.committed) > 0
        for name in ("token", "parent", "depth", "valid"):
            have, want = (np.where(np.asarray(x.tree.valid), np.asarray(getattr(x.tree, name)), -1) for x in (b, a))
            np.testing.assert_array_equal(have[live], want[live], err_msg=name)
        np.testing.assert_allclose(np.asarray(b.tree.logp)[live], np.asarray(a.tree.logp)[live], atol=1e-5)
        np.testing.assert_array_equal(np.asarray(b.acceptance.accepted), np.asarray(a.acceptance.accepted))
    np.testing.assert_array_equal(np.asarray(right.context.history), np.asarray(left.context.history))


def test_case_15_a_superset_tree_never_accepts_less_in_the_same_round():
    """From each state of a chain's run, both the chain and a tree that contains it are verified."""
    chain, tree = battery.make_engine("scripted", 5), battery.make_engine("scripted_tree", 16)
    state = chain.prefill(battery.ROWS, toys.CAP, list(range(len(battery.ROWS))))
    gained = 0
    while bool(state.running.any()):
        _, wide = tree.step(state)
        state, narrow = chain.step(state)
        for row in np.flatnonzero(np.asarray(narrow.acceptance.committed)):
            assert paths(narrow.tree, row) <= paths(wide.tree, row)
        more = np.asarray(wide.acceptance.accepted) - np.asarray(narrow.acceptance.accepted)
        assert (more >= 0).all()
        gained += more.sum()
    assert gained > 0, "the extra branches never helped: the comparison is idle"


def paths(tree: Tree, row: int) -> set[tuple[int, ...]]:
    """Token paths of all valid nodes."""
    parent, token = np.asarray(tree.parent)[row], np.asarray(tree.token)[row]
    valid = np.flatnonzero(np.asarray(tree.valid)[row])
    return {tuple(token[slot] for slot in oracles.ancestors(parent, int(node))[::-1]) for node in valid}
