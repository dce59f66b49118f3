"""Plain greedy decoding against other programs with the same weights, prompt and number of threads.

Leaves out: their own speculative decoding.
"""

from __future__ import annotations

import contextlib
from typing import Protocol

from bench import Bench, copy
from findings import Finding, at_least
from measure import Sample, ratio, take_turns
from peer_llama import LlamaCpp
from peer_transformers import Transformers
from unavailable import Unavailable

from specdec import Engine, strategies
from specdec.decoding.state import DecodeState

TITLE = "Plain decoding against peers, greedy, same weights"
PROMPT, TOKENS = 200, 32


class Peer(Protocol):
    """Another program, ready to decode."""

    name: str
    note: str

    def decode(self, tokens: int) -> float:
        """Seconds for `tokens` tokens after the prompt and the first one."""
        ...


def run(bench: Bench) -> list[Finding]:
    engine = bench.engine(strategies.plain(), 512)
    ids = bench.ids(PROMPT)
    start = engine.prefill([ids], TOKENS + 1, [0])
    found: list[Finding] = []
    repetitions = max(3, bench.repetitions // 2)
    for kind, goal in ((Transformers, at_least(2.0)), (LlamaCpp, None)):
        try:
            with contextlib.closing(kind(bench, ids)) as peer:
                ours, theirs = _race(engine, start, peer, repetitions)
        except Unavailable as reason:
            found.append(Finding(kind.name, None, note=f"skipped: {reason}"))
            continue
        quotient = ratio(theirs, ours)
        found.append(Finding(f"specdec beside {peer.name}", 1 / ours.median, "tok/s", note="fp32", detail=ours.json()))
        found.append(Finding(peer.name, 1 / theirs.median, "tok/s", note=peer.note, detail=theirs.json()))
        found.append(Finding(f"specdec / {peer.name}", quotient.median, "x", goal, f"{quotient.minima:.2f} by minima"))
    return found


def _race(engine: Engine, start: DecodeState, peer: Peer, repetitions: int) -> tuple[Sample, Sample]:
    seconds: list[float] = []
    # The peer times itself: its prompt is not part of the race.
    times = take_turns(
        {
            "ours": lambda given: engine.run_owned(given, TOKENS),
            "theirs": lambda given: seconds.append(peer.decode(TOKENS) / TOKENS),
        },
        repetitions,
        work=TOKENS,
        prepare=lambda: copy(start),
    )
    return times["ours"], Sample(tuple(seconds[1:]))
