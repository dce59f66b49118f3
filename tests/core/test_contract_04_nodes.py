"""A node's logits are those of its root path decoded alone, in this round and in the following ones.

Also what is captured on the way (case 24). Leaves out: trees as builders grow them (`test_builders.py`).
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core import oracles, toys
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec.backends import using
from specdec.decoding.compatibility import check
from specdec.drafters import NoDrafter
from specdec.errors import CompatibilityError
from specdec.sampling import sample_with
from specdec.tree import Tree
from specdec.values import Acceptance

NODES = 12
BATCH = 2
WIDTH = 64
FEATURES = (1, 0)
TOLERANCE = 2e-4


def target():
    return dataclasses.replace(toys.decoder().target, features=FEATURES)


@jax.jit
def prefill(params, tokens, count):
    state = target().init(BATCH, WIDTH + 32)
    # Lengths as data: an empty state would otherwise be folded into the program.
    return target().prefill(params, state.replace(length=count * 0), tokens, count, count)


@jax.jit
def verify(params, state, tree):
    with using(target().backend):
        return target().verify(params, state, tree, (1, 5))


@jax.jit
def commit(state, pending, path, accepted):
    width = path.shape[1]
    zeros = jnp.zeros_like(accepted)
    acceptance = Acceptance(path, accepted, zeros, accepted + 1, zeros > 0)
    assert width == NODES
    return target().commit(state, pending, acceptance)


@st.composite
def random_trees(draw, nodes=NODES):
    """Parents precede children; siblings are distinct; the valid slots are any that hang together."""
    parent, depth = [-1], [0]
    for slot in range(1, nodes):
        parent.append(draw(st.integers(0, slot - 1)))
        depth.append(depth[parent[-1]] + 1)
    token = draw(st.lists(st.integers(0, toys.VOCAB - 1), min_size=nodes, max_size=nodes))
    for slot in range(nodes):
        siblings = [token[other] for other in range(slot) if parent[other] == parent[slot]]
        while token[slot] in siblings:
            token[slot] = (token[slot] + 1) % toys.VOCAB
    valid = [True]
    for slot in range(1, nodes):
        valid.append(valid[parent[slot]] and draw(st.booleans() if slot % 3 == 0 else st.just(True)))
    return token, parent, depth, valid


def stack(trees) -> Tree:
    token, parent, depth, valid = (np.asarray(part) for part in zip(*trees, strict=True))
    return Tree(
        token=jnp.asarray(token, jnp.int32),
        parent=jnp.asarray(parent, jnp.int32),
        depth=jnp.asarray(depth, jnp.int32),
        logp=jnp.zeros(token.shape, jnp.float32),
        valid=jnp.asarray(valid),
    )


def pad(texts) -> tuple[jax.Array, jax.Array]:
    rows = [[*text] + [0] * (WIDTH - len(text)) for text in texts]
    return jnp.asarray(rows, jnp.int32), jnp.asarray([len(text) for text in texts], jnp.int32)


def compare(verified, tree: Tree, texts) -> None:
    """Every valid node against a float64 pass over its own root path."""
    config, params = target().config, toys.decoder().params
    for row, text in enumerate(texts):
        for node in np.flatnonzero(np.asarray(tree.valid[row])):
            slots = oracles.ancestors(np.asarray(tree.parent[row]), int(node))[::-1]
            path = [int(tree.token[row, slot]) for slot in slots]
            logits, hidden, rows = oracles.forward(config, params, [*text, *path])
            scale = np.abs(logits[-1]).max()
            np.testing.assert_allclose(verified.logits[row, node], logits[-1], atol=TOLERANCE * scale)
            np.testing.assert_allclose(verified.hidden[row, node], hidden[-1], atol=TOLERANCE * np.abs(hidden).max())
            features = np.concatenate([rows[layer][-1] for layer in FEATURES])
            np.testing.assert_allclose(verified.features[row, node], features, atol=TOLERANCE * np.abs(features).max())


texts = st.lists(st.integers(0, toys.VOCAB - 1), min_size=1, max_size=10)


@settings(max_examples=6)
@given(data=st.data())
def test_contract_04_nodes_see_their_root_path_and_nothing_else(data):
    """Two rounds: a random tree, a random one of its paths committed, another random tree on top."""
    params = toys.decoder().params
    committed = [data.draw(texts) for _ in range(BATCH)]
    state, _ = prefill(params, *pad(committed))
    for _ in range(2):
        tree = stack([data.draw(random_trees()) for _ in range(BATCH)])
        verified = verify(params, state, tree)
        compare(verified, tree, committed)
        paths, counts = [], []
        for row in range(BATCH):
            leaf = data.draw(st.sampled_from(np.flatnonzero(np.asarray(tree.valid[row])).tolist()))
            path = oracles.ancestors(np.asarray(tree.parent[row]), leaf)[::-1]
            committed[row] = [*committed[row], *(int(tree.token[row, slot]) for slot in path)]
            paths.append(path + [0] * (NODES - len(path)))
            counts.append(len(path) - 1)
        state = commit(state, verified.pending, jnp.asarray(paths, jnp.int32), jnp.asarray(counts, jnp.int32))
        np.testing.assert_array_equal(state.length, [len(text) for text in committed])


@settings(max_examples=10)
@given(data=st.data())
def test_contract_04_padding_never_reaches_a_valid_node(data):
    """Whatever id, parent and depth a padding node holds, valid rows are equal to the bit."""
    params = toys.decoder().params
    state, _ = prefill(params, *pad([data.draw(texts) for _ in range(BATCH)]))
    tree = stack([data.draw(random_trees()) for _ in range(BATCH)])
    # The last slot is always valid, so that both passes have the same width.
    tree = tree.replace(
        valid=tree.valid.at[:, -1].set(True), parent=tree.parent.at[:, -1].set(0), depth=tree.depth.at[:, -1].set(1)
    )
    seed = data.draw(st.integers(0, 2**16))
    draw = np.random.default_rng(seed)
    garbage = jnp.asarray(draw.integers(0, toys.VOCAB, tree.token.shape), jnp.int32)
    upward = jnp.asarray(draw.integers(-1, NODES, tree.token.shape), jnp.int32)
    other = tree.replace(
        token=jnp.where(tree.valid, tree.token, garbage),
        parent=jnp.where(tree.valid, tree.parent, upward),
        depth=jnp.where(tree.valid, tree.depth, jnp.abs(upward)),
    )
    one, two = verify(params, state, tree), verify(params, state, other)
    valid = np.asarray(tree.valid)
    for name in ("logits", "hidden", "features"):
        np.testing.assert_array_equal(np.asarray(getattr(one, name))[valid], np.asarray(getattr(two, name))[valid])


def test_case_17_five_live_nodes_of_many_are_finite_and_equal_to_the_small_tree():
    """Softmax over a padded row must not make NaN, and a narrower pass says the same."""
    params = toys.decoder().params
    state, _ = prefill(params, *pad([[3, 4, 5], [6]]))
    five = stack([([3, 1, 2, 3, 4], [-1, 0, 0, 1, 3], [0, 1, 1, 2, 3], [True] * 5)] * BATCH)
    wide = jax.tree.map(lambda leaf: jnp.pad(leaf, ((0, 0), (0, NODES - 5))), five)
    assert not bool(wide.valid[:, 5:].any())
    small, padded = verify(params, state, five), verify(params, state, wide)
    # Slot 11 alone keeps the pass at its full width.
    full = wide.replace(valid=wide.valid.at[:, -1].set(True), depth=wide.depth.at[:, -1].set(1))
    for other in (padded, verify(params, state, full)):
        np.testing.assert_allclose(other.logits[:, :5], small.logits, atol=1e-4)
        assert np.isfinite(np.asarray(other.logits)).all() and np.isfinite(np.asarray(other.hidden)).all()
    compare(padded, wide, [[3, 4, 5], [6]])


@pytest.mark.parametrize("features", [(0, 2), (2, 0), (3,), (3, 1, 0)])
def test_case_24_captured_rows_equal_a_layer_by_layer_run(features):
    """Four layers, all different; in the order asked for; the last layer's row is taken before the final norm."""
    model = toys.decoder(num_layers=4)
    decoder = dataclasses.replace(model.target, features=features)
    text = [5, 9, 2, 40, 63, 0, 7]
    tokens = jnp.asarray([text], jnp.int32)
    count = jnp.asarray([len(text)], jnp.int32)
    run = jax.jit(lambda params, state, tokens, count: decoder.prefill(params, state, tokens, count, count)[1])
    chunk = run(model.params, decoder.init(1, 16), tokens, count)
    _, hidden, rows = oracles.forward(decoder.config, model.params, text)
    want = np.concatenate([rows[layer] for layer in features], -1)
    assert chunk.features is not None
    np.testing.assert_allclose(chunk.features[0], want, atol=TOLERANCE * np.abs(want).max())
    np.testing.assert_allclose(chunk.hidden[0], hidden, atol=TOLERANCE * np.abs(hidden).max())
    if 3 in features:
        width = decoder.hidden_size
        last = features.index(3) * width
        assert np.abs(np.asarray(chunk.features)[0, :, last : last + width] - hidden).max() > 0.1


@pytest.mark.parametrize("layer", [4, -1, 100])
def test_case_24_layers_out_of_range_are_refused(layer):
    @dataclasses.dataclass(frozen=True)
    class Reader(NoDrafter):
        features = (0, layer)

    strategy = toys.scripted(np.zeros((1, 4)), 4)
    policy = dataclasses.replace(strategy.policy, drafter=Reader()).resolve(sample_with())
    with pytest.raises(CompatibilityError, match=r"layers 0\.\.3.*use a drafter"):
        check(policy, toys.decoder(num_layers=4).target, sample_with())
