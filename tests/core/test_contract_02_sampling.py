"""Sampled output follows the target alone, and a seed gives the same ids whatever is drafted.

All draws are seeded, so a result is the same in every run. Leaves out: the filters themselves (`test_sampling.py`).
"""

import dataclasses
import functools

import numpy as np
import pytest
from core import battery, oracles, toys
from core.battery import COMBINATIONS, plain, trace
from scipy import stats

import specdec
from specdec import strategies
from specdec.drafters import Script
from specdec.errors import SettingsError
from specdec.sampling import sample_with
from specdec.verifiers import Coupled, TargetOnly

ROWS = 2048
VERIFIERS = ("coupled", "target_only")
SMALL = 4
PROMPT = (1, 2)

# What a batch of drafts looks like: the four ids of the vocabulary are right, wrong, first or second somewhere.
SHAPES = [
    (Script.RIGHT, 0),
    (Script.SECOND_BRANCH, 0),
    (Script.WRONG, 0),
    (Script.RIGHT_FOR_K, 1),
    (Script.RANDOM, 0),
    (Script.EVERY_OTHER_EMPTY, 0),
]
SETTINGS = {
    "T=1": {"temperature": 1.0},
    "T=0.5": {"temperature": 0.5},
    "T=2": {"temperature": 2.0},
    "top_k=2": {"temperature": 1.0, "top_k": 2},
    "top_p=0.7": {"temperature": 1.0, "top_p": 0.7},
    "min_p=0.3": {"temperature": 1.0, "min_p": 0.3},
    "all": {"temperature": 0.8, "top_k": 3, "top_p": 0.9, "min_p": 0.1},
}


@pytest.mark.parametrize(("form", "budget"), COMBINATIONS)
def test_contract_02_same_seed_same_ids(form, budget):
    """Coupled: the noise depends on seed and position. Target-only: so does its uniform."""
    results = trace(form, budget).results
    for row, result in enumerate(results):
        if row % 3:
            assert result.ids == plain(budget)[row].ids, (battery.VERIFIER[row % 3], row)


@pytest.mark.parametrize("budget", [5, 8])
def test_contract_02_another_seed_gives_other_ids(budget):
    """Without this, the test above would pass for noise that nobody uses."""
    engine = battery.plain_engine(budget)
    seeds = [row + 3 * 17 for row in range(len(battery.ROWS))]
    other = toys.finish(engine, battery.run(engine, toys.CAP, seeds), battery.ROWS)
    for row, result in enumerate(other):
        assert (result.ids == plain(budget)[row].ids) == (row % 3 == 0), row


@functools.cache
def trigrams() -> np.ndarray:
    """Logits `[previous, id, next]` over four ids; no two rows alike."""
    return np.random.default_rng(7).standard_normal((SMALL, SMALL, SMALL)) * 1.2


def exact(settings: dict, logits: np.ndarray | None = None) -> np.ndarray:
    """Probability of every triple that may follow `PROMPT`."""
    full = np.broadcast_to(trigrams() if logits is None else logits, (SMALL,) * 3)
    step = np.asarray([[oracles.filtered(full[a, b], **settings) for b in range(SMALL)] for a in range(SMALL)])
    first = step[PROMPT[0], PROMPT[1]]
    second = step[PROMPT[1]]
    return first[:, None, None] * second[:, :, None] * step


def sampler(name: str, settings: dict, logits: np.ndarray):
    """An engine over `ROWS` rows whose verifier alternates, and which script every row follows."""
    each = toys.Each((Coupled(), TargetOnly()))
    rows = [SHAPES[row // 2 % len(SHAPES)] for row in range(ROWS)]
    # Scripts count id 0 as right, wherever they are: drafts must not know what the target will draw.
    answer = np.zeros((ROWS, 192), np.int32)
    tree = name.endswith("tree")
    if name.startswith("scripted"):
        strategy = toys.scripted(answer, 4, tree=tree, rows=rows, vocab=SMALL, depth=3, verifier=each)
    elif name == "plain":
        strategy = strategies.plain(verifier=each)
    elif name == "prompt_lookup":
        strategy = strategies.prompt_lookup(4, verifier=each)
    else:
        draft = toys.decoder(1, vocab_size=SMALL, num_layers=1, hidden_size=8, num_heads=1, num_kv_heads=1, head_dim=4)
        strategy = strategies.draft_model(draft, 4, tree=tree, children=2, verifier=each)
    return toys.engine(toys.table(logits), strategy, sample_with(**settings)), np.arange(ROWS) // 2 % len(SHAPES)


def draw(engine, blocks: int) -> np.ndarray:
    """Three ids per seed, `[blocks * ROWS, 3]`; even seeds are coupled, odd ones target-only."""
    drawn = []
    for block in range(blocks):
        state = engine.prefill([PROMPT] * ROWS, 3, list(range(block * ROWS, (block + 1) * ROWS)))
        state = engine.run_owned(state)
        start = len(PROMPT)
        drawn.append(np.asarray(state.context.history)[:, start : start + 3])
    return np.concatenate(drawn)


def p_value(counts: np.ndarray, p: np.ndarray) -> float:
    """Chi-square test; an impossible outcome that occurred has p-value 0. Rare outcomes are pooled."""
    counts, p = counts.ravel(), p.ravel()
    if counts[p == 0].any():
        return 0.0
    expected = p * counts.sum()
    rare = expected < 5
    have, want = counts[~rare], expected[~rare]
    if expected[rare].sum() >= 5:
        have, want = np.append(have, counts[rare].sum()), np.append(want, expected[rare].sum())
    if len(have) < 2:
        return 1.0
    # What is too rare to be counted leaves both sides with slightly different totals.
    return float(stats.chi2.sf((((have - want) ** 2) / want).sum(), len(have) - 1))


def check(drawn: np.ndarray, p: np.ndarray, label: str, least: float = 1e-4) -> None:
    """Single ids at each position, and both pairs of neighbours."""
    counts = np.zeros((SMALL,) * 3)
    np.add.at(counts, tuple(drawn.T), 1)
    for axes in ((1, 2), (0, 2), (0, 1), (2,), (0,)):
        value = p_value(counts.sum(axes), p.sum(axes))
        assert value > least, (label, axes, value)


def test_contract_02_the_test_itself_rejects_a_wrong_distribution():
    """The soft-q ratio test's output in case 18 is rejected at a far smaller sample."""
    counts = np.asarray([500.0, 500.0, 0.0, 0.0])
    assert p_value(counts, np.asarray([0.3, 0.5, 0.1, 0.1])) < 1e-20
    assert p_value(counts, np.asarray([0.5, 0.5, 0.0, 0.0])) == 1.0
    assert p_value(np.asarray([1.0, 99.0]), np.asarray([0.0, 1.0])) == 0.0


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", ["plain", "scripted_tree"])
def test_contract_02_distribution_under_every_setting(name, settings):
    engine, _ = sampler(name, SETTINGS[settings], trigrams())
    drawn = draw(engine, 20)
    for which, verifier in enumerate(VERIFIERS):
        check(drawn[which::2], exact(SETTINGS[settings]), f"{verifier} {name} {settings}")


@pytest.mark.parametrize("name", ["scripted", "scripted_tree"])
def test_contract_02_distribution_for_every_tree_shape(name):
    """Both sibling orders, right and wrong drafts, rounds without a draft: each shape by itself."""
    engine, shape = sampler(name, SETTINGS["T=1"], trigrams())
    drawn = draw(engine, 60)
    shape = np.tile(shape, 60)
    parity = np.arange(len(drawn)) % 2
    for which, verifier in enumerate(VERIFIERS):
        for index, (script, _) in enumerate(SHAPES):
            chosen = drawn[(shape == index) & (parity == which)]
            assert len(chosen) > 10_000
            check(chosen, exact(SETTINGS["T=1"]), f"{verifier} {script.value}")


@pytest.mark.parametrize("name", ["prompt_lookup", "draft_model_tree"])
def test_contract_02_distribution_with_drafts_that_follow_the_text(name):
    engine, _ = sampler(name, SETTINGS["T=1"], trigrams())
    drawn = draw(engine, 5)
    for which, verifier in enumerate(VERIFIERS):
        check(drawn[which::2], exact(SETTINGS["T=1"]), f"{verifier} {name}")


P = np.asarray([0.3, 0.5, 0.1, 0.1])
CASE_18 = [
    ("scripted", {"temperature": 1.0}, P, P),
    ("scripted_tree", {"temperature": 1.0}, P, P),
    ("scripted_tree", {"temperature": 1.0, "top_k": 2}, (0.42, 0.28, 0.15, 0.15), np.asarray([0.6, 0.4, 0, 0])),
]


@pytest.mark.parametrize(("name", "settings", "raw", "want"), CASE_18)
def test_case_18_an_argmax_draft_leaves_the_distribution_alone(name, settings, raw, want):
    """The draft is id 0, or siblings 0 and 1 in both orders; then the same with top-k 2."""
    engine, _ = sampler(name, settings, np.log(raw))
    drawn = draw(engine, 20)
    triple = want[:, None, None] * want[:, None] * want
    np.testing.assert_allclose(exact(settings, np.log(raw)), triple, atol=1e-12)
    for which, verifier in enumerate(VERIFIERS):
        check(drawn[which::2], triple, f"{verifier} {name}")


def test_case_17_a_draft_that_equals_the_target_gives_a_sample_of_the_target():
    """p == q leaves a residual rule with nothing; here the draft is merely compared with the target's draw."""
    logits = np.log([0.25, 0.25, 0.25, 0.25])
    engine, _ = sampler("scripted_tree", {"temperature": 1.0}, logits)
    drawn = draw(engine, 10)
    assert np.isin(drawn, range(SMALL)).all()
    for which, verifier in enumerate(VERIFIERS):
        check(drawn[which::2], np.full((SMALL,) * 3, SMALL**-3.0), verifier)


def test_contract_02_neither_budget_nor_batch_changes_a_seeds_ids():
    """The default policy at a temperature (coupled), a row alone, at another budget than the battery's."""
    row, strategy = 10, strategies.prompt_lookup(3)
    assert battery.VERIFIER[row % 3] == "coupled"
    assert isinstance(strategy.policy.resolve(battery.WARM).verifier, Coupled)
    alone = toys.decode(toys.decoder(), [battery.ROWS[row]], strategy, sampling=battery.WARM, seeds=[row])
    assert alone[0].ids == plain(5)[row].ids


def test_case_22_a_row_depends_on_its_own_seed_alone():
    """Seeds 1, 2, 1 in one batch, the same row alone, other neighbours, another order."""
    prompt, strategy = toys.PROMPTS[1], strategies.prompt_lookup(8)

    def ids(seeds, prompts=None):
        prompts = prompts or [prompt] * len(seeds)
        return toys.ids(toys.decode(toys.random_table(), prompts, strategy, sampling=battery.WARM, seeds=seeds))

    first, second, third = ids([1, 2, 1])
    assert first == third != second
    assert ids([2, 1, 1]) == [second, first, first]
    assert ids([1]) == [first]
    assert ids([3, 1, 4], [toys.PROMPTS[5], prompt, toys.PROMPTS[0]])[1] == first


def test_case_22_unseeded_calls_differ_and_say_which_seed_they_took():
    prompt, rest = list(toys.PROMPTS[1]), {"strategy": strategies.prompt_lookup(8), "max_new_tokens": toys.CAP}

    def generate(prompt, **settings):
        return specdec.generate(toys.random_table(), prompt, sampling=battery.WARM, **rest, **settings)

    one, two = generate(prompt), generate(prompt)
    assert one.seed != two.seed and one.ids != two.ids
    assert generate(prompt, seed=one.seed).ids == one.ids
    batch = generate([prompt] * 3, seed=5)
    assert [result.seed for result in batch] == [5, 6, 7]
    assert batch[1].ids == generate(prompt, seed=6).ids
    for wrong in (-1, 2**32, [1, 2], 1.5, "1"):
        with pytest.raises(SettingsError, match="seed"):
            generate(prompt, seed=wrong)


def test_contract_02_changing_a_setting_compiles_nothing():
    """Temperature and filters are arrays; only "greedy" and "needs a sort" are static."""
    engine, _ = sampler("plain", SETTINGS["top_k=2"], trigrams())
    draw(engine, 1)
    with toys.count_compilations() as counter:
        for settings in ({"temperature": 0.3, "top_p": 0.5}, {"temperature": 1.7, "top_k": 3, "min_p": 0.2}):
            draw(dataclasses.replace(engine, settings=sample_with(**settings)), 1)
    assert counter.count == 0
