"""Logits and captured features of every family equal those of transformers, however the tokens are read.

Leaves out: the layout of the files (`test_files.py`) and the real model (`test_smollm2.py`).
"""

import numpy as np
import pytest
from parity import passes, toy_models
from parity.toy_models import LAYERS, assert_close

pytestmark = pytest.mark.oracle

# A root, two children, a deep branch and a late sibling: slots of one path are not neighbours.
PARENT = [-1, 0, 0, 1, 2, 3, 1, 5]


@pytest.fixture(scope="module", params=list(toy_models.CASES))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """A transformers model, and the library's loaded from what the first one saved."""
    folder = tmp_path_factory.mktemp("model") / request.param
    theirs = toy_models.reference(request.param)
    theirs.save_pretrained(folder)
    return theirs, toy_models.load(folder, features=(0, LAYERS - 1))


def test_every_position_of_a_prompt(pair):
    theirs, ours = pair
    ids = toy_models.prompt(40)
    state, chunk = passes.read(ours, passes.start(ours), ids)
    assert int(state.length[0]) == len(ids)
    assert_close(passes.logits(ours, chunk), toy_models.logits_of(theirs, ids), "logits")


def test_captured_rows(pair):
    """After layer 0, and after the last one: there transformers returns the row behind the final norm."""
    theirs, ours = pair
    ids = toy_models.prompt(24, seed=1)
    _, chunk = passes.read(ours, passes.start(ours), ids)
    before, after = toy_models.hidden_states_of(theirs, ids)
    first, last = np.split(np.asarray(chunk.features[0, : len(ids)]), 2, axis=-1)
    assert_close(first, before[0], "after layer 0")
    assert_close(last, before[-1], "after the last layer")
    assert_close(chunk.hidden[0, : len(ids)], after, "after the final norm")


def test_one_node_at_a_time(pair):
    """Two chunks of prompt, then verify and commit single nodes."""
    theirs, ours = pair
    ids = toy_models.prompt(30, seed=2)
    expected = toy_models.logits_of(theirs, ids)
    state, _ = passes.read(ours, passes.start(ours), ids[:13])
    state, chunk = passes.read(ours, state, ids[13:22])
    assert_close(passes.logits(ours, chunk), expected[13:22], "second chunk")
    for position in range(22, len(ids)):
        verified = passes.verify(ours, state, passes.tree_of([ids[position]], [-1]))
        assert_close(verified.logits[0, 0], expected[position], f"position {position}")
        state = passes.commit(ours, state, verified, [0])
    assert int(state.length[0]) == len(ids)


def test_a_tree_equals_its_paths(pair):
    """Two trees, a path committed between them; every node against a run over its own path alone."""
    theirs, ours = pair
    committed = toy_models.prompt(21, seed=3)
    state, _ = passes.read(ours, passes.start(ours), committed[:-1])
    for seed in (4, 5):
        token = [committed[-1], *toy_models.prompt(len(PARENT) - 1, seed=seed)]
        verified = passes.verify(ours, state, passes.tree_of(token, PARENT))
        rows = np.split(np.asarray(verified.features[0]), 2, axis=-1)
        for slot in range(len(PARENT)):
            ids = committed[:-1] + [token[at] for at in passes.path_to(PARENT, slot)]
            before, after = toy_models.hidden_states_of(theirs, ids)
            assert_close(verified.logits[0, slot], toy_models.logits_of(theirs, ids)[-1], f"slot {slot}")
            assert_close(verified.hidden[0, slot], after[-1], f"final norm, slot {slot}")
            assert_close(rows[0][slot], before[0][-1], f"layer 0, slot {slot}")
            assert_close(rows[1][slot], before[-1][-1], f"last layer, slot {slot}")
        path = passes.path_to(PARENT, 5)
        state = passes.commit(ours, state, verified, path)
        committed += [token[at] for at in path[1:]] + [7]
        assert int(state.length[0]) == len(committed) - 1
