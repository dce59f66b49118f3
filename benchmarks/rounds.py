"""What a round of prompt lookup costs besides its target pass: drafting, growing the tree, walking it, committing.

Leaves out: whether the drafts are any good, and the stages one by one (`specdec compare` shows both).
"""

from __future__ import annotations

import statistics

import numpy as np
from bench import Bench, copy
from findings import Finding, at_most
from measure import take_turns
from passes import PASSES, passes

from specdec import Engine, Strategy, strategies
from specdec.decoding.state import DecodeState

TITLE = "Time outside the target pass, prompt lookup"
LIVE, CAPACITY = 300, 512
ROUNDS = 16
BUDGETS = (8, 16)


def run(bench: Bench) -> list[Finding]:
    return [_share(bench, strategies.prompt_lookup(budget)) for budget in BUDGETS]


def _share(bench: Bench, strategy: Strategy) -> Finding:
    engine = bench.engine(strategy, CAPACITY)
    start = engine.prefill([bench.ids(LIVE)], CAPACITY - LIVE, [0])
    widths = _widths(engine, engine.run_owned(copy(start), ROUNDS))
    # Passes are timed at the live length where the rounds begin; all of them read the same prefix of the cache.
    calls = {str(width): passes(engine, start, width) for width in sorted(set(widths))}
    alone = {name: (lambda _, call=call: [call() for _ in range(ROUNDS // PASSES)]) for name, call in calls.items()}
    times = take_turns(
        {"rounds": lambda given: engine.run_owned(given, len(widths)), **alone},
        bench.repetitions,
        prepare=lambda: copy(start),
    )
    within = np.mean([np.asarray(times[str(width)].seconds) / ROUNDS for width in widths], axis=0)
    whole = np.asarray(times["rounds"].seconds) / len(widths)
    share = statistics.median((whole - within) / within)
    minima = sum(times[str(width)].minimum for width in widths) / len(widths) / ROUNDS
    least = (times["rounds"].minimum / len(widths) - minima) / minima
    wide = sum(width > 1 for width in widths)
    note = f"round {1e3 * np.median(whole):.1f} ms, "
    note += f"pass {1e3 * np.median(within):.1f} ms ({wide} of {len(widths)} wide)"
    name = f"budget {strategy.budget}: outside / target pass"
    detail = {"round": times["rounds"].json(), "widths": widths}
    return Finding(name, 100 * float(share), "%", at_most(15), note, 100 * float(least), detail)


def _widths(engine: Engine, state: DecodeState) -> list[int]:
    """Nodes of the pass of every round: the smallest static size that the tree fitted into."""
    sizes = sorted({*engine.plan.sizes, engine.strategy.budget})
    nodes = 1 + np.asarray(state.records.drafted[: int(state.round), 0])
    return [int(next(size for size in sizes if size >= used)) for used in nodes]
