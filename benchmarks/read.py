"""How near a one-node pass comes to reading the weights once, which no pass over all weights can beat.

Leaves out: quantised weights, which are fewer bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
from bench import Bench
from findings import Finding, at_most, compared
from measure import take_turns
from passes import PASSES, passes

from specdec import strategies

TITLE = "One-node pass against a plain read of the weights"
LIVE, CAPACITY = 450, 512
BLOCK = 1 << 18  # elements; each is summed from memory, the result stays in a register


def _dot(values: np.ndarray) -> None:
    for start in range(0, values.size, BLOCK):
        block = values[start : start + BLOCK]
        np.dot(block, block)


# Different instructions for the same bytes; which is fastest depends on the machine, so the fastest counts.
READS: dict[str, Callable[[np.ndarray], object]] = {
    "sum": np.add.reduce,
    "maximum": np.maximum.reduce,
    "dot": _dot,
    "bitwise or": lambda values: np.bitwise_or.reduce(values[: values.size // 2 * 2].view(np.uint64)),
}


def _shares(arrays: list[np.ndarray], threads: int) -> Iterator[list[np.ndarray]]:
    """Every array cut into one part per thread."""
    for thread in range(threads):
        yield [np.array_split(array, threads)[thread] for array in arrays]


def run(bench: Bench) -> list[Finding]:
    engine = bench.engine(strategies.plain(), CAPACITY)
    state = engine.prefill([bench.ids(LIVE)], 1, [0])
    # On a CPU these are views of the very bytes that the pass reads.
    arrays = [np.asarray(leaf).reshape(-1) for leaf in jax.tree.leaves(bench.model.params)]
    size = sum(array.nbytes for array in arrays)
    parts = list(_shares(arrays, bench.threads))

    with ThreadPoolExecutor(bench.threads) as pool:

        def read(kind: str) -> Callable[[], list[None]]:
            return lambda: list(pool.map(lambda part: [READS[kind](array) for array in part] and None, parts))

        reads = take_turns({kind: read(kind) for kind in READS}, max(3, bench.repetitions // 3))
        best = min(reads, key=lambda kind: reads[kind].minimum)
        one = passes(engine, state, 1, 1)
        four = passes(engine, state, 1)
        times = take_turns(
            {
                "read": lambda: [read(best)() for _ in range(PASSES)],
                "pass": four,
                "call": lambda: [one() for _ in range(PASSES)],
            },
            bench.repetitions,
            work=PASSES,
        )
    gigabytes = size / 1e9
    return [
        Finding(
            f"read {size / 1e6:.0f} MB with {bench.threads} threads",
            times["read"].median * 1e3,
            "ms",
            note=f"{best}, {gigabytes / times['read'].median:.1f} GB/s",
            detail={**times["read"].json(), "all_reads": {kind: one.json() for kind, one in reads.items()}},
        ),
        Finding("one-node pass", times["pass"].median * 1e3, "ms", detail=times["pass"].json()),
        Finding("the same called from Python", times["call"].median * 1e3, "ms", detail=times["call"].json()),
        compared("pass / read", times["pass"], times["read"], at_most(1.25)),
    ]
