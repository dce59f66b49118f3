"""The common battery: every form of every strategy, at every budget, under every verifier, traced round by round.

A trace is made once per (form, budget) and read by the tests of several contracts. It has 24 rows: eight prompts
(and, for scripted drafts, eight scripts) times three verifiers; row i has seed i, so `toys.Each` gives it the
verifier number i % 3. Leaves out: the assertions.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from core import toys

from specdec.decoding.engine import Engine
from specdec.decoding.result import Result
from specdec.decoding.state import DecodeState
from specdec.decoding.step import Round
from specdec.model import Model
from specdec.sampling import sample_with

# The budgets are divided between two targets: the decoder proves caches and attention, the table compiles in half the
# time. Both see every form and every verifier.
DECODER_BUDGETS = (5, 16)
TABLE_BUDGETS = (1, 2, 8)
COMBINATIONS = [(form, budget) for budget in (*DECODER_BUDGETS, *TABLE_BUDGETS) for form in toys.FORMS]
ROWS = [prompt for prompt in toys.PROMPTS for _ in range(3)]
VERIFIER = ("greedy", "coupled", "target_only")
WARM = sample_with(0.8)


@dataclasses.dataclass(frozen=True)
class Step:
    """One round, on the host.

    `cache_error`, `draft_error`: largest difference per row to a fresh prefill, relative to its largest entry.
    `digest`: a checksum of everything a row keeps between rounds.
    """

    done: Round
    live: np.ndarray
    before: np.ndarray
    length: np.ndarray
    root: np.ndarray
    cached: np.ndarray
    draft_cached: np.ndarray | None
    reason: np.ndarray
    cache_error: np.ndarray
    draft_error: np.ndarray | None
    digest: np.ndarray


@dataclasses.dataclass(frozen=True)
class Run:
    """What ends a run: the cap, a stop id or none, the capacity or none."""

    cap: int
    stop: int | None = None
    capacity: int | None = None


@dataclasses.dataclass(frozen=True)
class Trace:
    """All rounds of one combination, its results, and the results (and final lengths) of runs that end elsewhere."""

    engine: Engine
    steps: tuple[Step, ...]
    results: list[Result]
    runs: dict[Run, list[Result]]
    lengths: dict[Run, np.ndarray]


# Places of plain decoding's text that become stop ids: about two blocks of every budget.
STOP_PLACES = {1: (1,), 2: (1, 2, 3), 5: (3,), 8: (1, 2, 4, 7, 8, 9, 15), 16: (9,)}
STOP_CAP = 24
# A row of one prompt id whose script is always right, under greedy verification.
RIGHT_ROW = 0
CROWDED = max(len(prompt) for prompt in ROWS) + 6


def stop_at(budget: int, place: int) -> int:
    """The id that some row of plain decoding says at a place."""
    return plain(budget)[(3 * place) % len(ROWS)].ids[place]


def first_places(budget: int) -> list[int]:
    """Places in the first ten ids of `RIGHT_ROW` whose id had not been said before."""
    said = plain(budget)[RIGHT_ROW].ids
    return [place for place in range(10) if said[place] not in said[:place]]


def experiments(budget: int) -> list[Run]:
    """The other runs of a combination. They happen while its compiled round is at hand; caps and stops are data."""
    runs = [Run(cap) for cap in caps(budget)]
    runs += [Run(STOP_CAP, stop_at(budget, place)) for place in STOP_PLACES[budget]]
    if budget == 8:
        for place in first_places(budget):
            stop = plain(budget)[RIGHT_ROW].ids[place]
            runs += [Run(STOP_CAP, stop), Run(place + 1, stop), *([Run(place, stop)] if place else [])]
    if budget == 16:
        runs.append(Run(toys.CAP, capacity=CROWDED))
    return list(dict.fromkeys(runs))


def caps(budget: int) -> list[int]:
    """1, 2, and around one block and two."""
    return sorted({1, 2, max(budget - 1, 1), budget, budget + 1, min(2 * budget + 1, toys.CAP - 1)})


def model_for(budget: int) -> Model:
    return toys.random_table() if budget in TABLE_BUDGETS else toys.decoder()


def make_engine(form: str, budget: int, **settings: Any) -> Engine:
    """The engine of a combination."""
    answer = toys.answers(plain(budget)) if form.startswith("scripted") else None
    return toys.engine(model_for(budget), toys.FORMS[form](budget, answer, toys.Each()), WARM, **settings)


def plain_engine(budget: int, **settings: Any) -> Engine:
    """Plain decoding with the target of a budget."""
    return toys.engine(model_for(budget), toys.strategies.plain(verifier=toys.Each()), WARM, **settings)


def plain(budget: int) -> list[Result]:
    """The reference: plain decoding of the same rows by the same target."""
    return _plain(budget in TABLE_BUDGETS)


@functools.cache
def _plain(on_table: bool) -> list[Result]:
    engine = plain_engine(TABLE_BUDGETS[0] if on_table else DECODER_BUDGETS[0])
    return toys.finish(engine, run(engine, toys.CAP), ROWS)


def run(engine: Engine, cap: int, seeds: Any = None) -> DecodeState:
    """All rounds, one at a time."""
    state = engine.prefill(ROWS, cap, toys.seed_list(seeds, len(ROWS)))
    while bool(state.running.any()):
        state, _ = engine.step(state)
    return state


@functools.cache
def trace(form: str, budget: int) -> Trace:
    """Runs a combination and compares its caches with a fresh prefill after every round."""
    engine = make_engine(form, budget)
    state = engine.prefill(ROWS, toys.CAP, list(range(len(ROWS))))
    text = toys.answers(plain(budget), 128)
    target = fresh_state(engine.model.target, engine.model.params, text)
    model = getattr(engine.strategy.policy.drafter, "model", None)
    draft = None if model is None else fresh_state(model, engine.strategy.drafter_params, text)
    steps = []
    while bool(state.running.any()):
        live, before = np.asarray(state.running), np.asarray(state.context.length)
        state, done = engine.step(state)
        steps.append(
            Step(
                done=jax.tree.map(np.asarray, done),
                live=live,
                before=before,
                length=np.asarray(state.context.length),
                root=np.asarray(state.context.root),
                cached=np.asarray(state.target.length),
                draft_cached=None if model is None else np.asarray(state.drafter.length),
                reason=np.asarray(state.reason),
                cache_error=np.asarray(cache_error(state.target, target)),
                draft_error=None if draft is None else np.asarray(cache_error(state.drafter, draft)),
                digest=np.asarray(digest(state)),
            )
        )
    results, runs, lengths = toys.finish(engine, state, ROWS), {}, {}
    for one in experiments(budget):
        stops = None if one.stop is None else (one.stop,)
        ending = dataclasses.replace(engine, stop_ids=stops, capacity=one.capacity)
        state = run(ending, one.cap)
        runs[one], lengths[one] = toys.finish(ending, state, ROWS), np.asarray(state.context.length)
    return Trace(engine, tuple(steps), results, runs, lengths)


def fresh_state(target: Any, params: Any, tokens: np.ndarray) -> Any:
    """State after one prefill over whole texts. An entry depends on earlier ids only, so it serves every prefix."""
    batch, width = tokens.shape
    count = jnp.full((batch,), width, jnp.int32)
    return _prefill(target, params, target.init(batch, width), jnp.asarray(tokens, jnp.int32), count)


@functools.partial(jax.jit, static_argnames="target")
def _prefill(target, params, state, tokens, count):
    return target.prefill(params, state, tokens, count, count)[0]


@jax.jit
def cache_error(state, fresh):
    """Per row, over the committed positions of all layers (of a table: over its committed ids)."""
    worst = jnp.zeros(state.length.shape, jnp.float32)
    for have, want in zip(_buffers(state), _buffers(fresh), strict=True):
        width = want.shape[2]
        inside = jnp.arange(width)[None, None, :, None] < state.length[:, None, None, None]
        # NaN must not hide behind a maximum.
        difference = jnp.nan_to_num(jnp.abs(have[:, :, :width] - want), nan=jnp.inf)
        scale = jnp.where(inside, jnp.abs(want), 0.0).max((1, 2, 3))
        difference = jnp.where(inside, difference, 0.0).max((1, 2, 3))
        worst = jnp.maximum(worst, difference / jnp.maximum(scale, 1e-6))
    return worst


@jax.jit
def digest(state: DecodeState):
    """Checksum per row of committed cache entries, context and counters, exact to the bit."""
    context = state.context
    total = context.root * 3 + context.length * 5 + state.reason * 7 + state.returned * 11
    total += jax.lax.bitcast_convert_type(context.h0, jnp.int32).sum(1)
    places = jnp.arange(context.history.shape[1], dtype=jnp.int32)[None, :]
    total += jnp.where(places <= context.length[:, None], context.history * (1 + places), 0).sum(1)
    for part in (state.target, state.drafter):
        if not hasattr(part, "length"):
            continue
        for leaf in _buffers(part):
            inside = jnp.arange(leaf.shape[2])[None, None, :, None] < part.length[:, None, None, None]
            bits = jax.lax.bitcast_convert_type(leaf, jnp.int32)
            total += jnp.where(inside, bits, 0).sum((1, 2, 3)) + part.length
    return total


def _buffers(state) -> list[jax.Array]:
    """Everything committed as `[B, heads, position, channel]`."""
    if hasattr(state, "layers"):
        return jax.tree.leaves(state.layers)
    return [state.ids.astype(jnp.float32)[:, None, :, None]]
