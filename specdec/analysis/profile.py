"""Where a round's time goes: draft, build, verify and commit as four compiled functions, timed one by one.

Each time includes one call from Python and the wait for its result, which the single compiled loop does not pay,
so the four add up to a little more than a round of `generate`.
Leaves out: operators within a stage (`jax.profiler.trace` shows them).
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp

from specdec.decoding import step
from specdec.decoding.engine import Engine
from specdec.decoding.state import DecodeState, Params, Plan


@dataclasses.dataclass(frozen=True)
class RoundSplit:
    """Milliseconds per round of each stage; `commit` holds the verifier's walk too."""

    draft: float
    build: float
    verify: float
    commit: float


STAGES = tuple(field.name for field in dataclasses.fields(RoundSplit))

_prepare = jax.jit(step.limit_depth, static_argnames="plan")
_draft = jax.jit(step.draft, static_argnames="plan")
_build = jax.jit(step.build, static_argnames="plan")
_verify = jax.jit(step.verify, static_argnames="plan")


@jax.jit(static_argnames=("plan", "where", "shape"), donate_argnames="owned")
def _commit(plan: Plan, params: Params, owned: tuple, lent: tuple, where: tuple, shape: Any) -> DecodeState:
    leaves = [owned[index] if mine else lent[index] for mine, index in where]
    return step.commit(plan, params, *jax.tree.unflatten(shape, leaves))[0]


def _commit_in_place(plan: Plan, params: Params, state: DecodeState, *rest: Any) -> DecodeState:
    """`step.commit` that reuses the buffers of `state`, as the compiled loop does.

    A buffer may appear several times (a stage hands on what it did not change) but may be given away only once,
    so the arguments are passed as lists of distinct arrays.
    """
    leaves, shape = jax.tree.flatten((state, *rest))
    mine = {id(leaf) for leaf in jax.tree.leaves((state.target, state.drafter))}
    places: dict[int, tuple[bool, int]] = {}
    owned: list[Any] = []
    lent: list[Any] = []
    for leaf in leaves:
        if id(leaf) not in places:
            group = owned if id(leaf) in mine else lent
            places[id(leaf)] = (group is owned, len(group))
            group.append(leaf)
    return _commit(plan, params, tuple(owned), tuple(lent), tuple(places[id(leaf)] for leaf in leaves), shape)


def round_split(engine: Engine, state: DecodeState, rounds: int = 16) -> RoundSplit:
    """Median time of each stage over some rounds; the first round compiles and is not counted.

    Args:
      engine: the strategy bound to its target.
      state: where to start, from `Engine.prefill`; it stays usable.
      rounds: rounds to time, fewer if the row ends before.
    """
    return split_of(stage_times(engine, state, rounds))


def stage_times(engine: Engine, state: DecodeState, rounds: int) -> list[RoundSplit]:
    """The stages of each round, the first (compiling) one left out."""
    plan, params = engine.plan, engine.params
    state = jax.tree.map(jnp.copy, state)
    found = []
    for _ in range(rounds + 1):
        state = jax.block_until_ready(_prepare(plan, state))
        if not bool(state.running.any()):
            break
        seconds: list[float] = []
        candidates, drafter = _timed(seconds, _draft, plan, params, state)
        tree, expansion, _ = _timed(seconds, _build, plan, params, state, candidates, drafter)
        verified = _timed(seconds, _verify, plan, params, state, tree)
        state = _timed(seconds, _commit_in_place, plan, params, state, tree, verified, drafter, expansion)
        found.append(RoundSplit(*(1000 * each for each in seconds)))
    return found[1:]


def split_of(times: Iterable[RoundSplit]) -> RoundSplit:
    """Medians; zeros when no round was timed."""
    times = list(times)
    return RoundSplit(
        *(statistics.median([getattr(one, stage) for one in times]) if times else 0.0 for stage in STAGES)
    )


def _timed(seconds: list[float], call: Callable[..., Any], *arguments: Any) -> Any:
    started = time.perf_counter()
    result = jax.block_until_ready(call(*arguments))
    seconds.append(time.perf_counter() - started)
    return result
