"""Prompt lookup against matches and children counted in plain Python. Leaves out: how the trie becomes a tree."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core import oracles, toys
from hypothesis import example, given, settings
from hypothesis import strategies as st

from specdec import strategies
from specdec.builders import BestFirst, Chain
from specdec.drafters import PromptLookup
from specdec.errors import SettingsError
from specdec.noise import Noise
from specdec.values import Context, Readout

CAPACITY, NODES = 48, 12
DRAFTER = PromptLookup(max_ngram=3, min_ngram=1, places=4, depth=6, children=3)
EMPTY = Readout(jnp.zeros((1, 1)), jnp.zeros((1, 1)), 64)


@functools.partial(jax.jit, static_argnames=("drafter", "builder"))
def propose(history, length, drafter, builder):
    batch = history.shape[0]
    context = Context(
        root=history[jnp.arange(batch), length],
        length=length,
        h0=jnp.zeros((batch, 1)),
        history=history,
        limit=jnp.full((batch,), 99, jnp.int32),
        live=jnp.ones((batch,), bool),
    )
    noise = Noise(jnp.zeros((batch,), jnp.uint32))
    state = drafter.begin((), None, (), context, EMPTY, noise, builder.num_nodes)
    tree, _ = builder.build(functools.partial(drafter.expand, ()), state, context, noise)
    return state, tree


def pad(texts, garbage: int = 0):
    """Histories; what lies beyond the committed text must not matter."""
    draw = np.random.default_rng(garbage)
    rows = draw.integers(0, 3, (len(texts), CAPACITY))
    for row, text in enumerate(texts):
        rows[row, : len(text)] = text
    return jnp.asarray(rows, jnp.int32), jnp.asarray([len(text) - 1 for text in texts], jnp.int32)


def children(text, path, drafter=DRAFTER) -> list[tuple[int, float]]:
    """Distinct next tokens of the places that agree with a path, heaviest first, with their log-probability."""
    places = oracles.matches(text, drafter.max_ngram, drafter.min_ngram, drafter.places)
    alive = []
    for place, length in places:
        follows = oracles.continuation(text, place, drafter.depth)
        if tuple(follows[: len(path)]) == path and len(path) < drafter.depth:
            alive.append((follows[len(path)], 4.0**length, length))
    total = sum(weight for _, weight, _ in alive)
    mass: dict[int, float] = {}
    for token, weight, _ in alive:
        mass[token] = mass.get(token, 0.0) + weight
    longest = max((length for *_, length in alive), default=0)
    ranked = sorted(mass.items(), key=lambda item: -item[1])[: drafter.children]
    confidence = np.log(longest / (longest + 0.5)) if alive else 0.0
    return [(token, float(np.log(weight / total) + confidence)) for token, weight in ranked]


texts = st.lists(st.integers(0, 2), min_size=1, max_size=CAPACITY - 1)


@settings(max_examples=60)
@given(one=texts, two=texts, garbage=st.integers(0, 99))
@example(one=[1], two=[1, 1], garbage=0)
@example(one=[0] * 20, two=[0, 1] * 10, garbage=1)
def test_matches_are_the_longest_then_the_latest(one, two, garbage):
    state, _ = propose(*pad([one, two], garbage), DRAFTER, BestFirst(NODES))
    for row, text in enumerate((one, two)):
        want = oracles.matches(text, DRAFTER.max_ngram, DRAFTER.min_ngram, DRAFTER.places)
        lengths = np.asarray(state.length)[row]
        assert lengths[lengths > 0].tolist() == [length for _, length in want]
        for index, (place, length) in enumerate(want):
            follows = oracles.continuation(text, place, DRAFTER.depth)
            assert np.asarray(state.token)[row, index].tolist() == follows
            assert float(state.weight[row, index]) == 4.0**length
        assert (np.asarray(state.weight)[row, len(want) :] == 0).all()


@settings(max_examples=60)
@given(one=texts, two=texts, garbage=st.integers(0, 99))
def test_children_are_the_next_tokens_of_agreeing_places(one, two, garbage):
    """Every node of the grown tree against the children counted by hand, and the best of them are really there."""
    _, tree = propose(*pad([one, two], garbage), DRAFTER, BestFirst(NODES))
    for row, text in enumerate((one, two)):
        parent, token = np.asarray(tree.parent)[row], np.asarray(tree.token)[row]
        logp = np.asarray(tree.logp)[row]
        valid = np.flatnonzero(np.asarray(tree.valid)[row])
        paths = {}
        for slot in valid:
            slots = oracles.ancestors(parent, int(slot))[::-1]
            paths[int(slot)] = tuple(int(token[s]) for s in slots[1:])
        for slot in valid[1:]:
            allowed = dict(children(text, paths[int(parent[slot])]))
            assert int(token[slot]) in allowed
            edge = logp[slot] - logp[parent[slot]]
            assert abs(edge - allowed[int(token[slot])]) < 1e-4
        possible = {(first,) for first, _ in children(text, ())}
        assert (len(valid) > 1) == bool(possible)
        if len(valid) < NODES:
            # The frontier ran out: nothing that could be proposed is missing.
            for path in paths.values():
                for following, _ in children(text, path):
                    assert (*path, following) in paths.values()


@settings(max_examples=40)
@given(text=texts)
def test_every_branch_is_text_that_occurred_or_its_periodic_extension(text):
    _, tree = propose(*pad([text]), DRAFTER, BestFirst(NODES))
    parent, token = np.asarray(tree.parent)[0], np.asarray(tree.token)[0]
    for slot in np.flatnonzero(np.asarray(tree.valid)[0])[1:]:
        branch = [int(token[s]) for s in oracles.ancestors(parent, int(slot))[-2::-1]]
        extended = [text[: place + 1] + oracles.continuation(text, place, 60) for place in range(len(text) - 1)]
        assert any(
            line[start + 1 : start + 1 + len(branch)] == branch and line[start] == text[-1]
            for line in extended
            for start in range(min(len(line) - 1, len(text)))
        )


def test_a_chain_follows_the_best_place():
    """The longest match wins over a later, shorter one."""
    text = [1, 2, 3, 9, 8, 7, 3, 5, 5, 1, 2, 3]
    _, tree = propose(*pad([text]), DRAFTER, Chain(4))
    assert np.asarray(tree.token)[0].tolist() == [3, 9, 8, 7]
    _, tree = propose(*pad([[4, 4, 4]]), DRAFTER, Chain(5))
    assert np.asarray(tree.token)[0].tolist() == [4, 4, 4, 4, 4]
    _, tree = propose(*pad([[1, 2, 3, 4]]), DRAFTER, Chain(5))
    assert int(tree.drafted[0]) == 0


@pytest.mark.parametrize("ngrams", [(2, 2), (5, 1), (1, 1)])
def test_shortest_and_longest_match_are_obeyed(ngrams):
    longest, shortest = ngrams
    drafter = PromptLookup(longest, shortest, places=4, depth=6, children=3)
    text = [1, 2, 3, 4, 5, 6, 9, 4, 5, 6, 0, 6, 7, 7, 3, 4, 5, 6]
    state, _ = propose(*pad([text]), drafter, BestFirst(4))
    lengths = np.asarray(state.length)[0]
    assert lengths[lengths > 0].tolist() == [length for _, length in oracles.matches(text, longest, shortest, 4)]


@pytest.mark.parametrize("places", [1, 2, 3])
def test_fewer_places_than_children_are_enough(places):
    result = toys.decode(toys.random_table(), [toys.PROMPTS[2]], strategies.prompt_lookup(5, places=places), cap=12)[0]
    assert result.ids == toys.decode(toys.random_table(), [toys.PROMPTS[2]], cap=12)[0].ids
    assert result.drafted > 0


@pytest.mark.parametrize(
    "settings", [{"max_ngram": 0}, {"min_ngram": 0}, {"max_ngram": 2, "min_ngram": 3}, {"places": 0}]
)
def test_senseless_settings_are_refused(settings):
    with pytest.raises(SettingsError):
        strategies.prompt_lookup(8, **settings)
