"""Plain greedy decoding against other programs with the same weights, prompt and number of threads.

Leaves out: their own speculative decoding.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Protocol

from bench import Bench, copy
from findings import Finding, Goal, at_least, compared
from measure import Sample, take_turns
from peer_llama import LlamaCpp
from peer_transformers import Transformers
from unavailable import Unavailable

from specdec import Engine, strategies
from specdec.decoding.state import DecodeState

TITLE = "Plain decoding against peers, greedy, same weights"
PROMPT, TOKENS = 200, 32


class Peer(Protocol):
    """Another program, ready to decode."""

    note: str

    def decode(self, tokens: int) -> float:
        """Seconds for `tokens` tokens after the prompt and the first one."""
        ...

    def close(self) -> None: ...


PEERS: dict[str, tuple[Callable[[Bench, list[int]], Peer], Goal | None]] = {
    "transformers": (functools.partial(Transformers, bare=False), at_least(2.0)),
    "its bare model": (functools.partial(Transformers, bare=True), None),
    "llama.cpp": (LlamaCpp, None),
}


def run(bench: Bench) -> list[Finding]:
    engine = bench.engine(strategies.plain(), 512)
    ids = bench.ids(PROMPT)
    start = engine.prefill([ids], TOKENS + 1, [0])
    found: list[Finding] = []
    for name, (start_peer, goal) in PEERS.items():
        try:
            with contextlib.closing(start_peer(bench, ids)) as peer:
                ours, theirs = _race(engine, start, peer, max(3, bench.repetitions // 3))
        except Unavailable as reason:
            found.append(Finding(name, None, note=f"skipped: {reason}"))
            continue
        found.append(Finding(name, 1 / theirs.median, "tok/s", note=peer.note, detail=theirs.json()))
        found.append(Finding("  specdec beside it", 1 / ours.median, "tok/s", note="fp32", detail=ours.json()))
        found.append(compared("  specdec against it", theirs, ours, goal))
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
