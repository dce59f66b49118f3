"""Ties go to the lowest id everywhere; a NaN is an error, in plain and speculative decoding alike."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from core import battery, toys

import specdec
from specdec import strategies
from specdec.builders import BestFirst
from specdec.drafters import DraftModel
from specdec.errors import NumericalError
from specdec.noise import Noise
from specdec.sampling import sample_with
from specdec.tree import root_only
from specdec.values import Context
from specdec.verifiers import Coupled, Greedy, TargetOnly


def twins():
    """A decoder whose head holds every row twice, and the ids that a tie must never give."""
    model = toys.decoder()
    half = toys.VOCAB // 2
    pairs = np.random.default_rng(5).permutation(toys.VOCAB).reshape(half, 2)
    head = np.array(model.params.head)
    head[pairs[:, 1]] = head[pairs[:, 0]]
    params = model.params.replace(head=jnp.asarray(head))
    return dataclasses.replace(model, params=params), set(pairs.max(1).tolist())


def test_case_01b_identical_rows_of_the_head_give_the_lowest_id_everywhere():
    """Every step of plain decoding ties; so does every step of a draft model with the same head."""
    model, never = twins()
    rows = [prompt for prompt in battery.ROWS if len(prompt) > 2]
    rows = (rows * 2)[: len(battery.ROWS)]
    plain = toys.decode(model, rows[:2])
    assert not never & {token for result in plain for token in result.ids}
    for tree in (False, True):
        result = toys.decode(model, rows[:2], strategies.draft_model(model, 5, tree=tree, children=2))
        assert toys.ids(result) == toys.ids(plain)
        if not tree:
            # The drafter ties in the same way, so a chain is always right.
            assert all(record.accepted == record.deepest for one in result for record in one.rounds)


@pytest.mark.parametrize("builder", [BestFirst(6)])
def test_case_01b_drafts_tie_to_the_lowest_id_too(builder):
    """Children of a tie are the lowest ids, in ascending order."""
    flat = toys.small_drafter()
    flat = dataclasses.replace(flat, params=flat.params.replace(head=jnp.zeros_like(flat.params.head)))
    drafter = DraftModel(flat.target, 3)
    context = Context(
        root=jnp.asarray([9], jnp.int32),
        length=jnp.asarray([0], jnp.int32),
        h0=jnp.zeros((1, 2)),
        history=jnp.zeros((1, 32), jnp.int32),
        limit=jnp.asarray([9], jnp.int32),
        live=jnp.asarray([True]),
    )
    state = drafter.init(flat.params, 1, 32)
    noise = Noise(jnp.zeros((1,), jnp.uint32))
    expansion = drafter.begin(flat.params, None, state, context, flat.target.readout(flat.params), noise, 6)
    tree, _ = builder.build(lambda own, nodes: drafter.expand(flat.params, own, nodes), expansion, context, noise)
    assert np.asarray(tree.token)[0].tolist() == [9, 0, 1, 2, 0, 1]
    assert np.asarray(tree.parent)[0].tolist() == [-1, 0, 0, 0, 1, 1]


def walk(verifier, logits, settings):
    """One node's verdict."""
    rows = len(logits)
    context = Context(
        root=jnp.zeros((rows,), jnp.int32),
        length=jnp.zeros((rows,), jnp.int32),
        h0=jnp.zeros((rows, 1)),
        history=jnp.zeros((rows, 4), jnp.int32),
        limit=jnp.zeros((rows,), jnp.int32),
        live=jnp.ones((rows,), bool),
    )
    noise = Noise(jnp.arange(rows, dtype=jnp.uint32))
    return verifier.walk(jnp.asarray(logits, jnp.float32)[:, None], root_only(context.root), context, settings, noise)


def test_contract_12_greedy_ties_at_every_place():
    """Two or more equal maxima anywhere: the lowest. Zeros of either sign are equal."""
    size, draw = 16, np.random.default_rng(3)
    logits = draw.standard_normal((64, size)).astype(np.float32)
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


NAN_PLACES = ("a logit", "all logits", "both infinities")


@pytest.mark.parametrize("place", NAN_PLACES)
@pytest.mark.parametrize("verifier", [Greedy(), Coupled(), TargetOnly()])
def test_contract_12_a_nan_is_seen_by_every_verifier(verifier, place):
    settings = sample_with(0.0 if verifier.greedy else 0.7)
    logits = np.random.default_rng(0).standard_normal((3, 8))
    match place:
        case "a logit":
            logits[1, 5] = np.nan
        case "all logits":
            logits[1] = np.nan
        case "both infinities":
            logits[1] = -np.inf
            if verifier.greedy:
                pytest.skip("an argmax over -inf has no NaN; it is id 0, which no finite model gives")
    assert np.asarray(walk(verifier, logits, settings).nan).tolist() == [False, True, False]
    # Filters must not hide it.
    if not verifier.greedy:
        filtered = sample_with(0.7, top_k=2, top_p=0.9, min_p=0.1)
        assert np.asarray(walk(verifier, logits, filtered).nan).tolist() == [False, True, False]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_case_17_nan_logits_raise_in_plain_and_speculative_alike(temperature):
    """One NaN after a certain pair of ids: a clear error at the next host boundary, naming row and position."""
    base = toys.random_table()
    sampling = sample_with(temperature)
    prompts = [battery.ROWS[0], battery.ROWS[3]]
    whole = toys.decode(base, prompts, sampling=sampling, seeds=[1, 1])
    text = [*whole[1].prompt_ids, *whole[1].ids]
    at = len(prompts[1]) + 6
    pair = (text[at - 1], text[at])
    table = base.params.at[pair[0], pair[1], 40].set(jnp.nan)
    broken = dataclasses.replace(base, params=table)
    first = min(
        place for one in whole for place, two in enumerate(zip(one.ids, one.ids[1:], strict=False)) if two == pair
    )
    assert first >= 0
    answer = toys.answers(whole)
    strategies_ = (None, strategies.prompt_lookup(8), toys.scripted(answer, 5, tree=True, rows=toys.SCRIPTS[:2]))
    for strategy in strategies_:
        with pytest.raises(NumericalError, match=r"NaN \(row \d+, predicting position \d+\).*check the weights"):
            toys.decode(broken, prompts, strategy, sampling=sampling, seeds=[1, 1])
        pieces = specdec.stream(
            broken, list(prompts[1]), strategy=strategies.prompt_lookup(8), sampling=sampling, seed=1
        )
        with pytest.raises(NumericalError):
            list(pieces)


def test_case_17_nan_in_the_first_prediction_raises_too():
    base = toys.random_table()
    broken = dataclasses.replace(base, params=base.params.at[0, 5].set(jnp.nan))
    with pytest.raises(NumericalError, match="predicting position 1"):
        toys.decode(broken, [(5,), (6,)])


def test_case_17_an_unvisited_branch_may_hold_a_nan():
    """Only what the target really says matters: a rejected draft's logits are nobody's."""
    base = toys.random_table()
    prompts = [battery.ROWS[0], battery.ROWS[3]]
    whole = toys.decode(base, prompts)
    said = {
        pair
        for one in whole
        for pair in zip([*one.prompt_ids, *one.ids], [*one.prompt_ids, *one.ids][1:], strict=False)
    }
    table = np.array(base.params)
    for first in range(toys.VOCAB):
        for second in range(toys.VOCAB):
            if (first, second) not in said and first + second:
                table[first, second] = np.nan
    # The very first pair is (0, prompt's only id).
    table[0, prompts[0][0]] = np.asarray(base.params)[0, prompts[0][0]]
    broken = dataclasses.replace(base, params=jnp.asarray(table))
    strategy = toys.scripted(toys.answers(whole), 5, tree=True, rows=toys.SCRIPTS[1:3])
    assert toys.ids(toys.decode(broken, prompts, strategy)) == toys.ids(whole)


def test_case_17_padding_of_a_prompt_is_never_looked_at():
    """Prompts are padded with id 0: an embedding row of NaN there must not touch a prompt that does not say 0."""
    model = toys.decoder()
    params = model.params.replace(embed=model.params.embed.at[0].set(jnp.nan))
    broken = dataclasses.replace(model, params=params)
    prompts = [battery.ROWS[row] for row in (6, 12)]
    want = [battery.plain(5)[row].ids for row in (6, 12)]
    cut = [ids.index(0) if 0 in ids else len(ids) for ids in want]
    cap = min(min(cut), 12)
    assert cap > 3
    assert toys.ids(toys.decode(broken, prompts, cap=cap)) == [ids[:cap] for ids in want]
