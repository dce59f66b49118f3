import jax
import numpy as np
import pytest
from analysis import small

from specdec import strategies
from specdec.analysis import round_split
from specdec.analysis.profile import STAGES, stage_times
from specdec.decoding.engine import Engine
from specdec.sampling import sample_with

STRATEGIES = {
    "plain": strategies.plain,
    "prompt_lookup": lambda: strategies.prompt_lookup(4),
    "draft_model": lambda: strategies.draft_model(small.model(1), 4),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_stages_are_timed_and_the_given_state_stays_usable(name):
    engine = Engine(small.model(), STRATEGIES[name](), sample_with(), capacity=512)
    state = engine.prefill([small.model().encode(small.PROMPT)], 24, [0])
    split = round_split(engine, state, rounds=3)
    assert all(getattr(split, stage) > 0 for stage in STAGES)
    assert all(not leaf.is_deleted() for leaf in jax.tree.leaves(state))
    history = np.asarray(engine.run(state).context.history)
    assert history.any()


def test_a_row_that_ends_ends_the_timing():
    engine = Engine(small.model(), strategies.plain(), sample_with(), capacity=512)
    state = engine.prefill([small.model().encode(small.PROMPT)], 3, [0])
    assert len(stage_times(engine, state, 10)) == 1  # two rounds, of which the first does not count
    assert round_split(engine, engine.prefill([[5, 6]], 1, [0])).verify == 0.0
