"""Nothing recompiles after warm-up, nothing is copied or donated that should not be, depth costs no compile time.

Leaves out: wall-clock (`benchmarks/`).
"""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core import toys

from specdec import strategies
from specdec.analysis.compile_counter import CompileCounter
from specdec.decoding import loop

FORMS = {
    "plain": lambda answer: strategies.plain(),
    "prompt_lookup": lambda answer: strategies.prompt_lookup(5),
    "draft_model": lambda answer: strategies.draft_model(toys.small_drafter(), 5),
}
PROMPT = toys.PROMPTS[2]


def engine_of(form: str, **settings):
    model = toys.decoder()
    answer = toys.answers(toys.decode(model, [PROMPT], cap=80))
    return toys.engine(model, FORMS[form](answer), **settings)


@pytest.mark.parametrize("form", FORMS)
def test_case_38_nothing_compiles_after_warm_up(form):
    """Three rounds of warm-up, then 30 rounds and a new prompt of the same bucket."""
    engine = engine_of(form)
    state = engine.prefill([PROMPT], 80, [0])
    state = engine.run_owned(state, 3)
    toys.finish(engine, state, [PROMPT])
    with CompileCounter() as compilations:
        state = engine.run_owned(state, 30)
        toys.finish(engine, state, [PROMPT])
        for prompt in (PROMPT[:5], PROMPT[::-1], (9, 9)):
            other = engine.run_owned(engine.prefill([prompt], 70, [1]), 10)
            toys.finish(engine, other, [prompt])
    assert compilations.count == 0


@pytest.mark.parametrize("form", ["prompt_lookup", "draft_model"])
def test_case_38_two_generations_from_one_prefilled_state(form):
    engine = engine_of(form)
    state = engine.prefill([PROMPT], 20, [0])
    before = jax.tree.map(np.array, state)
    first, second = engine.run(state), engine.run(state)
    stepped, _ = engine.step(state)
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves((state, stepped)))
    jax.tree.map(np.testing.assert_array_equal, before, jax.tree.map(np.asarray, state))
    jax.tree.map(np.testing.assert_array_equal, jax.tree.map(np.asarray, first), jax.tree.map(np.asarray, second))


@pytest.mark.parametrize("form", ["plain", "prompt_lookup", "draft_model"])
def test_case_38_the_compiled_loop_copies_no_cache(form, optimised):
    """The position of the committing write after the pass's reads is a data dependency, so XLA writes in place."""
    engine = engine_of(form, capacity=200)
    state = engine.prefill([PROMPT], 20, [0])
    text = loop.run_owned.lower(engine.plan, engine.params, state, jnp.int32(50)).compile().as_text()
    caches = [state.target, state.drafter] if form == "draft_model" else [state.target]
    for cache in caches:
        shape = ",".join(str(size) for size in cache.layers[0].key.shape)
        assert re.search(rf"f32\[{shape}\]\S* dynamic-update-slice\(|f32\[{shape}\]\S* fusion\(", text)
        assert not re.findall(rf"= f32\[{shape}\]\S* copy\(", text)


def test_case_38_live_memory_is_flat_over_rounds():
    engine = engine_of("prompt_lookup")
    state = engine.run_owned(engine.prefill([PROMPT], 80, [0]), 3)

    def live() -> int:
        return sum(leaf.nbytes for leaf in jax.live_arrays())

    state = engine.run_owned(state, 1)
    before = live()
    for _ in range(20):
        state = engine.run_owned(state, 1)
    assert live() <= before + 64, "a few scalars at most"


@pytest.mark.parametrize("tree", [False, True])
def test_case_38_compile_time_does_not_grow_with_depth(tree):
    """Size of the traced program at 5 and 65 nodes."""

    def size(budget: int) -> int:
        engine = toys.engine(toys.decoder(), strategies.draft_model(toys.small_drafter(), budget, tree=tree))
        state = engine.prefill([PROMPT], 20, [0])
        jaxpr = jax.make_jaxpr(loop._run, static_argnums=0)(engine.plan, engine.params, state, jnp.int32(9))
        return str(jaxpr).count("=")

    assert size(65) < 1.1 * size(5)
