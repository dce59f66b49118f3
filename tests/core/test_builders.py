"""Trees as builders grow them, against heaps and frontiers in plain Python.

Scores are multiples of 1/8, so that sums are exact and ties are true ties. Leaves out: what is drafted (`drafters`).
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core import oracles
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec.builders import BestFirst, Chain, RootOnly
from specdec.errors import SettingsError
from specdec.noise import Noise
from specdec.selectors import Independent
from specdec.tree import Tree, validate
from specdec.values import Candidates, Children, Context

BATCH, DEPTH, POOL = 3, 5, 16
ROOT = 7


def context(batch: int = BATCH, live=None) -> Context:
    return Context(
        root=jnp.full((batch,), ROOT, jnp.int32),
        length=jnp.zeros((batch,), jnp.int32),
        h0=jnp.zeros((batch, 1)),
        history=jnp.zeros((batch, 8), jnp.int32),
        limit=jnp.full((batch,), 99, jnp.int32),
        live=jnp.ones((batch,), bool) if live is None else jnp.asarray(live),
    )


NOISE = Noise(jnp.zeros((BATCH,), jnp.uint32))


@functools.partial(jax.jit, static_argnames=("builder", "children"))
def grow(builder, candidates, context, children=POOL):
    selector = Independent(children)
    state = selector.begin((), candidates, (), context, None, NOISE, builder.num_nodes)
    return builder.build(functools.partial(selector.expand, ()), state, context, NOISE)[0]


# A tree of script: what follows a path is drawn from a table by the path's last token and depth, so a node's children
# depend on its path and differ from those of its siblings.
@functools.partial(jax.jit, static_argnames="builder")
def grow_from_table(builder, token, logp, context):
    def expand(state, nodes):
        rows = jnp.arange(token.shape[0])[:, None]
        at = (rows, jnp.minimum(nodes.depth, DEPTH - 1), nodes.token)
        deep = (nodes.depth >= DEPTH)[..., None]
        return Children(token[at], jnp.where(deep, -jnp.inf, logp[at])), state

    return builder.build(expand, (), context, NOISE)[0]


def marginals(seed: int, *, steps: int = 24) -> Candidates:
    """Best-first logits on a grid of 1/8, full of ties; the normaliser is another multiple of 1/8."""
    draw = np.random.default_rng(seed)
    logits = -np.sort(draw.integers(0, steps, (BATCH, DEPTH, POOL)), axis=-1) / 8.0
    ids = np.stack([[draw.permutation(50)[:POOL] for _ in range(DEPTH)] for _ in range(BATCH)])
    return Candidates(
        ids=jnp.asarray(ids, jnp.int32),
        logits=jnp.asarray(logits, jnp.float32),
        log_z=jnp.asarray(draw.integers(0, 16, (BATCH, DEPTH)) / 8.0, jnp.float32),
        hidden=jnp.zeros((BATCH, DEPTH, 1)),
    )


def token_paths(tree: Tree, row: int) -> list[tuple[int, ...]]:
    """Path of every valid slot without the root, in slot order."""
    parent, token = np.asarray(tree.parent)[row], np.asarray(tree.token)[row]
    slots = np.flatnonzero(np.asarray(tree.valid)[row])
    return [tuple(int(token[s]) for s in oracles.ancestors(parent, int(slot))[-2::-1]) for slot in slots]


@pytest.mark.parametrize("nodes", [2, 5, 16])
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1))
def test_best_first_is_ddtrees_heap(nodes, seed):
    """Independent marginals, as many children as nodes: the same prefixes in the same order with the same scores."""
    candidates = marginals(seed)
    tree = grow(BestFirst(nodes), candidates, context())
    validate(tree)
    for row in range(BATCH):
        ids = np.asarray(candidates.ids)[row]
        want = oracles.ddtree(np.asarray(candidates.logits)[row], np.asarray(candidates.log_z)[row], nodes - 1)
        paths = [tuple(int(ids[depth, rank]) for depth, rank in enumerate(ranks)) for ranks, _ in want]
        assert token_paths(tree, row)[1:] == paths
        np.testing.assert_array_equal(np.asarray(tree.logp)[row, 1:], [score for _, score in want])


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1))
def test_best_first_a_smaller_budget_is_a_truncation(seed):
    candidates = marginals(seed)
    whole = grow(BestFirst(16, max_depth=4), candidates, context())
    for nodes in (5, 9):
        small = grow(BestFirst(nodes, max_depth=4), candidates, context())
        cut = whole.truncate(nodes)
        for name in ("token", "parent", "depth", "logp", "valid"):
            np.testing.assert_array_equal(getattr(small, name), getattr(cut, name), err_msg=name)


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1))
def test_best_first_slots_are_in_order_of_probability(seed):
    tree = grow(BestFirst(16), marginals(seed), context())
    logp = np.asarray(tree.logp)
    assert (np.diff(logp, axis=1)[np.asarray(tree.valid)[:, 1:]] <= 0).all()


def tables(seed: int, children: int, *, empty: float):
    """Children per depth and last token, distinct among siblings, some missing."""
    draw = np.random.default_rng(seed)
    vocabulary = 10
    token = np.stack(
        [
            [[draw.permutation(vocabulary)[:children] for _ in range(vocabulary)] for _ in range(DEPTH)]
            for _ in range(BATCH)
        ]
    )
    logp = -np.sort(draw.integers(0, 20, token.shape), axis=-1) / 8.0
    missing = np.sort(draw.random(token.shape) < empty, axis=-1)  # what is missing comes last, as from a selector
    return jnp.asarray(token, jnp.int32), jnp.asarray(np.where(missing, -np.inf, logp), jnp.float32)


@pytest.mark.parametrize(("nodes", "per_call"), [(9, 1), (12, 2), (14, 4), (6, 9)])
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), empty=st.sampled_from([0.0, 0.4, 0.9]))
def test_best_first_with_several_nodes_per_call_is_the_batched_frontier(nodes, per_call, seed, empty):
    """The oracle of the batched frontier, on children that depend on the path; empty picks leave padding."""
    token, logp = tables(seed, 3, empty=empty)
    tree = grow_from_table(BestFirst(nodes, per_call, max_depth=4), token, logp, context())
    validate(tree)
    for row in range(BATCH):

        def children(path, row=row):
            at = (row, len(path), path[-1] if path else ROOT)
            return list(zip(np.asarray(token)[at].tolist(), np.asarray(logp)[at].tolist(), strict=True))

        want = oracles.frontier(children, nodes, per_call, max_depth=4)
        assert [path is not None for path in want] == np.asarray(tree.valid)[row].tolist()
        assert token_paths(tree, row) == [path for path in want if path is not None]


def test_best_first_one_call_expands_what_the_last_one_added():
    """With all nodes in one call nothing but children of the root can be popped."""
    tree = grow(BestFirst(6, nodes_per_call=5), marginals(0), context())
    assert (np.asarray(tree.parent)[:, 1:] == 0).all()


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1))
def test_best_first_with_one_child_is_the_chain(seed):
    candidates = marginals(seed)
    chain, tree = (
        grow(Chain(5), candidates, context(), children=1),
        grow(BestFirst(5), candidates, context(), children=1),
    )
    for name in ("token", "parent", "depth", "valid", "logp"):
        np.testing.assert_array_equal(getattr(chain, name), getattr(tree, name), err_msg=name)


def test_builders_stop_where_the_selector_has_nothing_left():
    """Five depths of marginals: a chain of nine has six nodes, a tree of one child per node as well."""
    for builder in (Chain(9), BestFirst(9)):
        tree = grow(builder, marginals(1), context(), children=1)
        np.testing.assert_array_equal(np.asarray(tree.valid).sum(1), DEPTH + 1)
        validate(tree)


@pytest.mark.parametrize("builder", [Chain(6), BestFirst(6), BestFirst(6, nodes_per_call=2)])
def test_builders_treat_rows_alone(builder):
    """A row's tree does not depend on its neighbours, nor on whether they are finished."""
    token, logp = tables(3, 3, empty=0.3)
    together = grow_from_table(builder, token, logp, context())
    some = grow_from_table(builder, token, logp, context(live=[True, False, True]))
    turned = grow_from_table(builder, token[::-1], logp[::-1], context())
    for row in range(BATCH):
        assert token_paths(together, row) == token_paths(turned, BATCH - 1 - row)
        if row != 1:
            assert token_paths(together, row) == token_paths(some, row)
    assert int(some.valid[1, 1:].sum()) == 0


@pytest.mark.parametrize("builder", [Chain(1), BestFirst(1), RootOnly()])
def test_builders_of_one_node_give_the_root(builder):
    tree = grow(builder, marginals(0), context())
    assert tree.num_nodes == 1
    validate(tree)
    assert (np.asarray(tree.token) == ROOT).all()


def test_best_first_settings():
    assert BestFirst(6, nodes_per_call=99) == BestFirst(6, nodes_per_call=5)
    with pytest.raises(SettingsError, match="nodes_per_call"):
        BestFirst(6, nodes_per_call=0)


def test_best_first_keeps_to_its_depth():
    tree = grow(BestFirst(16, max_depth=2), marginals(0), context())
    assert int(tree.depth.max()) == 2
    assert BestFirst(4).max_depth == 3 and BestFirst(4, max_depth=9).max_depth == 3
