"""The tree value: ancestors, pruning, validation. Leaves out: growth (`test_builders.py`)."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core import oracles
from core.test_contract_04_nodes import random_trees, stack
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec.errors import SettingsError
from specdec.tree import Tree, chain, root_only, validate
from specdec.values import Acceptance, path_tokens

ancestors = jax.jit(lambda tree: tree.ancestors())


@pytest.mark.parametrize("nodes", [1, 2, 7, 16])
@settings(max_examples=20)
@given(data=st.data())
def test_ancestors_equal_a_walk_to_the_root(nodes, data):
    tree = stack([data.draw(random_trees(nodes)) for _ in range(2)])
    found = np.asarray(ancestors(tree))
    for row in range(2):
        for slot in range(nodes):
            want = oracles.ancestors(np.asarray(tree.parent[row]), slot) if bool(tree.valid[row, slot]) else [slot]
            assert np.flatnonzero(found[row, slot]).tolist() == sorted(want)


def test_ancestors_of_a_deep_chain_reach_the_root():
    """Doubling must reach as far as the tree is deep, at sizes around powers of two."""
    for nodes in (15, 16, 17, 33, 65):
        tree = chain(jnp.asarray([1], jnp.int32), jnp.ones((1, nodes - 1), jnp.int32), jnp.asarray([nodes - 1]))
        np.testing.assert_array_equal(np.asarray(tree.ancestors())[0], np.tril(np.ones((nodes, nodes), bool)))


def example() -> Tree:
    """Root, two children, a grandchild under the second."""
    return stack([([5, 1, 2, 1], [-1, 0, 0, 2], [0, 1, 1, 2], [True] * 4)])


def test_validate_accepts_trees_and_repeats_across_branches():
    validate(example())
    validate(root_only(jnp.asarray([3, 4], jnp.int32)))


BREAKS = {
    "slot 0 must be a valid root": [("valid", 0, False), ("parent", 0, 0), ("depth", 0, 1)],
    "parent .* must lie in 0..": [("parent", 3, 3), ("parent", 2, 3), ("parent", 1, -1)],
    "is padding": [("valid", 2, False)],
    "is not its parent's plus one": [("depth", 3, 1), ("depth", 1, 2)],
    "appears twice": [("token", 2, 1)],
}


@pytest.mark.parametrize(("message", "change"), [(m, c) for m, changes in BREAKS.items() for c in changes])
def test_validate_refuses_and_names_row_and_slot(message, change):
    name, slot, value = change
    tree = example()
    broken = dataclasses.replace(tree, **{name: getattr(tree, name).at[0, slot].set(value)})
    with pytest.raises(SettingsError, match=f"row 0.*{message}"):
        validate(broken)


def test_validate_looks_at_every_row_and_at_no_padding():
    good = example()
    both = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), good)
    with pytest.raises(SettingsError, match="row 1, slot 3"):
        validate(both.replace(depth=both.depth.at[1, 3].set(7)))
    validate(good.replace(valid=good.valid.at[0, 3].set(False), depth=good.depth.at[0, 3].set(7)))


def test_prune_drops_what_is_too_deep_and_never_the_root():
    tree = jax.tree.map(lambda leaf: jnp.concatenate([leaf] * 4), example())
    pruned = tree.prune(jnp.asarray([2, 1, 0, -3]))
    assert np.asarray(pruned.valid).sum(1).tolist() == [4, 3, 1, 1] and bool(pruned.valid[:, 0].all())
    assert np.asarray(pruned.drafted).tolist() == [3, 2, 0, 0]
    assert np.asarray(pruned.deepest).tolist() == [2, 1, 0, 0]
    validate(pruned)


def test_chain_ends_where_the_drafts_do():
    drafts = jnp.asarray([[4, 5, 6], [4, 5, 6]], jnp.int32)
    tree = chain(jnp.asarray([1, 2], jnp.int32), drafts, jnp.asarray([3, 1]))
    validate(tree)
    assert np.asarray(tree.drafted).tolist() == [3, 1]
    assert np.asarray(tree.token).tolist() == [[1, 4, 5, 6], [2, 4, 5, 6]]


def test_path_tokens_are_the_accepted_drafts_then_the_bonus():
    tree = example()
    zeros = jnp.zeros((1,), jnp.int32)
    for path, accepted, want in (
        ([0, 9, 9, 9], 0, [8, 8, 8, 8]),
        ([0, 2, 9, 9], 1, [2, 8, 8, 8]),
        ([0, 2, 3, 9], 2, [2, 1, 8, 8]),
    ):
        acceptance = Acceptance(
            path=jnp.asarray([path], jnp.int32) % 4,
            accepted=zeros + accepted,
            bonus=zeros + 8,
            committed=zeros + accepted + 1,
            nan=zeros > 0,
        )
        assert np.asarray(path_tokens(tree.token, acceptance))[0].tolist() == want
