"""Long runs stay as they began: nothing is compiled after warm-up, no memory is gathered.

Leaves out: peaks of memory (`specdec compare` prints them).
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

import jax
from bench import Bench
from findings import Finding, at_most, exactly

from specdec import Engine, strategies
from specdec.analysis.compile_counter import CompileCounter
from specdec.decoding.prefill import schedule

TITLE = "50 rounds of prompt lookup on three prompts, after warm-up"
BUDGET, CAPACITY, CAP = 4, 512, 256
ROUNDS, CHECK_EVERY = 50, 10
LENGTHS = (60, 120, 250)  # of the warm-up's prompts; those that count are a few ids shorter


def run(bench: Bench) -> list[Finding]:
    engine = bench.engine(strategies.prompt_lookup(BUDGET), CAPACITY)
    texts = bench.ids(2 * max(LENGTHS))
    warm = [texts[:length] for length in LENGTHS]
    counted = [texts[length:][: length - 1 - at] for at, length in enumerate(LENGTHS)]
    for one, other in zip(warm, counted, strict=True):
        assert _sizes(bench, one) == _sizes(bench, other), "the prompts should be read in chunks of the same sizes"
    for ids in warm:
        _rounds(engine, ids, 2 * CHECK_EVERY)
    live, resident = [_live_bytes()], [_resident_bytes()]
    inside, rounds = [], 0
    with CompileCounter() as compiled:
        for ids in counted:
            held, done = _rounds(engine, ids, ROUNDS)
            inside.append(held)
            rounds += done
            live.append(_live_bytes())
            resident.append(_resident_bytes())
    moved = max(max(held) - min(held) for held in inside)
    return [
        Finding("compilations", compiled.count, "", exactly(0), f"{rounds} rounds in all"),
        Finding(
            "live arrays: change during a generation",
            moved,
            "bytes",
            exactly(0),
            f"{inside[0][0] / 1e6:.0f} MB throughout",
        ),
        Finding("live arrays: left behind", live[-1] - live[0], "bytes", exactly(0)),
        _growth(resident),
    ]


def _rounds(engine: Engine, ids: list[int], rounds: int) -> tuple[list[int], int]:
    """Decodes a few rounds per call, as `stream` and stop strings do; live bytes at every stop."""
    state = engine.prefill([ids], CAP, [0])
    held = []
    for _ in range(0, rounds, CHECK_EVERY):
        state = engine.run_owned(state, CHECK_EVERY)
        held.append(_live_bytes())
    return held, int(state.round)


def _sizes(bench: Bench, ids: list[int]) -> list[int]:
    return [size for _, size in schedule(len(ids), bench.model.target.backend.prefill_chunk, CAPACITY + 64)]


def _live_bytes() -> int:
    gc.collect()
    return sum(array.nbytes for array in jax.live_arrays())


def _resident_bytes() -> int | None:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def _growth(resident: list[int | None]) -> Finding:
    known = [one for one in resident if one is not None]
    if len(known) < len(resident):
        return Finding("resident memory: growth", None, note="not known on this system")
    growth = (known[-1] - known[0]) / 2**20
    return Finding("resident memory: growth", growth, "MiB", at_most(8), f"of {known[0] / 2**20:,.0f} MiB")
