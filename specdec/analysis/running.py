"""Running one strategy on one prompt so that its times mean something: one shape for all, everything compiled before.

Leaves out: which strategies and prompts (`compare.py`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import jax

from specdec.analysis.memory import extra_bytes
from specdec.analysis.profile import RoundSplit, split_of, stage_times
from specdec.decoding.collect import collect
from specdec.decoding.engine import Engine
from specdec.decoding.prefill import schedule
from specdec.decoding.result import Result, Timing
from specdec.drafters import Stateless
from specdec.model import Model

WARM_ROUNDS = 2
SPLIT_PROMPTS, SPLIT_ROUNDS = 3, 12


def run_once(engine: Engine, ids: Sequence[int], max_new_tokens: int, seed: int, rounds: int | None = None) -> Result:
    """One timed generation from ids, or its first rounds.

    Args:
      engine: model, strategy and settings.
      ids: the prompt.
      max_new_tokens: ids to return.
      seed: of the row.
      rounds: stop after so many; None goes on to the end.
    """
    started = time.perf_counter()
    state = jax.block_until_ready(engine.prefill([ids], max_new_tokens, [seed]))
    first = time.perf_counter()
    state = jax.block_until_ready(engine.run_owned(state, rounds))
    timing = Timing(first_token=first - started, decode=time.perf_counter() - first)
    return collect(engine, state, [ids], [()], timing)[0]


def common_capacity(model: Model, encoded: Sequence[Sequence[int]], cap: int, capacity: int | None) -> int:
    """One capacity for all prompts, so that nothing is compiled twice."""
    if capacity is not None:
        return capacity
    longest = max(len(ids) for ids in encoded) + cap
    return min(model.target.max_positions, max(1 << (longest - 1).bit_length(), 512))


def warm_up(
    engine: Engine, encoded: Sequence[Sequence[int]], cap: int, seed: int, compiled: set[tuple[Any, int]]
) -> int:
    """Compiles whatever the runs will need; returns the bytes that drafter and selector hold.

    Drafters that keep nothing share the passes over a prompt with plain decoding: `compiled` holds (who reads along,
    size of the chunk) of those passes.
    """
    drafter = engine.plan.policy.drafter
    listener = None if isinstance(drafter, Stateless) else drafter
    shortest = min(encoded, key=len)
    state = engine.prefill([shortest], cap, [seed])
    room = state.context.history.shape[1]
    for ids in (shortest, *sorted(encoded, key=len, reverse=True)):
        sizes = schedule(len(ids), engine.model.target.backend.prefill_chunk, room)
        needed = {(listener, size) for _, size in sizes}
        if ids is shortest or not needed <= compiled:
            compiled |= needed
            run_once(engine, ids, cap, seed, WARM_ROUNDS)
    return extra_bytes(engine, state.drafter)


def split_over(engine: Engine, encoded: Sequence[Sequence[int]], cap: int, seed: int) -> RoundSplit:
    """Stages of a round over the first few prompts."""
    times = []
    for ids in encoded[:SPLIT_PROMPTS]:
        times += stage_times(engine, engine.prefill([ids], cap, [seed]), SPLIT_ROUNDS)
    return split_of(times)
