"""Room in the cache that is not used costs nothing: capacity 4096 against 512 at the same live length.

Leaves out: long live lengths (`long_input.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from bench import Bench, copy
from findings import Finding, at_most, compared
from measure import Sample, take_turns
from passes import PASSES, passes

from specdec import Strategy, strategies
from specdec.decoding.state import DecodeState

TITLE = "Capacity 4096 against 512, live length 450"
LIVE, SMALL, LARGE = 450, 512, 4096
ROUNDS = 12
NO_MORE = at_most(1.05)  # no more, within what timing can tell


def run(bench: Bench) -> list[Finding]:
    ids = bench.ids(LIVE)
    found = []
    plain = {size: bench.engine(strategies.plain(), size) for size in (SMALL, LARGE)}
    states = {size: engine.prefill([ids], 1, [0]) for size, engine in plain.items()}
    for nodes in (1, 16):
        times = take_turns(
            {str(size): passes(plain[size], states[size], nodes) for size in plain}, bench.repetitions, work=PASSES
        )
        found.append(_compare(f"pass over {nodes} node(s)", times))
    found += [_rounds(bench, strategy, ids) for strategy in (strategies.plain(), strategies.prompt_lookup(4))]
    return found


def _rounds(bench: Bench, strategy: Strategy, ids: list[int]) -> Finding:
    engines = {str(size): bench.engine(strategy, size) for size in (SMALL, LARGE)}
    # 4 nodes and 12 rounds end before position 512, so both read the same prefix in every round.
    starts = {name: engine.prefill([ids], SMALL - LIVE, [0]) for name, engine in engines.items()}

    def decode(name: str) -> Callable[[dict[str, DecodeState]], DecodeState]:
        return lambda given: engines[name].run_owned(given[name], ROUNDS)

    times = take_turns(
        {name: decode(name) for name in engines},
        bench.repetitions,
        work=ROUNDS,
        prepare=lambda: {name: copy(state) for name, state in starts.items()},
    )
    return _compare(f"round of {strategy.name}, budget {strategy.budget}", times)


def _compare(name: str, times: dict[str, Sample]) -> Finding:
    large, small = times[str(LARGE)], times[str(SMALL)]
    note = f"{large.median * 1e3:.1f} against {small.median * 1e3:.1f} ms"
    return compared(name, large, small, NO_MORE, note)
