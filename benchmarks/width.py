"""What more nodes cost: a pass over N nodes against a pass over one.

Leaves out: what surrounds the pass (`rounds.py`).
"""

from __future__ import annotations

from bench import Bench
from findings import Finding, at_most, compared
from measure import take_turns
from passes import PASSES, passes

from specdec import strategies

TITLE = "A pass over N nodes, live length 450 of capacity 512"
LIVE, CAPACITY = 450, 512
WIDTHS = (1, 2, 4, 8, 16, 32)
GOALS = {8: 1.5, 16: 1.8, 32: 3.0}


def run(bench: Bench) -> list[Finding]:
    engine = bench.engine(strategies.plain(), CAPACITY)
    state = engine.prefill([bench.ids(LIVE)], 1, [0])
    times = take_turns({str(nodes): passes(engine, state, nodes) for nodes in WIDTHS}, bench.repetitions, work=PASSES)
    found = []
    for nodes in WIDTHS:
        sample = times[str(nodes)]
        found.append(Finding(f"{nodes:2d} nodes", sample.median * 1e3, "ms", detail=sample.json()))
        if nodes > 1:
            goal = at_most(GOALS[nodes]) if nodes in GOALS else None
            found.append(compared(f"{nodes:2d} nodes / 1 node", sample, times["1"], goal))
    return found
