"""What the benchmarks share: the model, ids of any length, engines, and how often to repeat.

Leaves out: measuring (`measure.py`).
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import jax

import specdec
from specdec import Engine, Model, Strategy
from specdec.analysis.prompts import LabelledPrompt, read_prompts, shipped_prompts
from specdec.decoding.state import DecodeState

MODEL = "smollm2-135m"


@dataclasses.dataclass(frozen=True)
class Bench:
    """Settings of a run.

    Args:
      repetitions: of every timed call.
      threads: cores in use, also for the peers.
      prompts: a file for the long input; None takes the texts that ship with the library.
      tools: where programs that peers need are kept.
    """

    repetitions: int = 15
    threads: int = 2
    prompts: Path | None = None
    tools: Path | None = None

    @functools.cached_property
    def model(self) -> Model:
        return specdec.load(MODEL)

    def engine(self, strategy: Strategy, capacity: int | None = None) -> Engine:
        """An engine whose rows end at the cap alone: every run then does the same work."""
        return Engine(self.model, strategy, specdec.sample_with(), stop_ids=(), capacity=capacity)

    def texts(self, category: str | None = None) -> list[LabelledPrompt]:
        found = shipped_prompts() if self.prompts is None else read_prompts(self.prompts)
        return [one for one in found if category in (None, one.category)]

    def ids(self, length: int) -> list[int]:
        """The first ids of the shipped texts; time does not depend on which ids are read."""
        found: list[int] = []
        for one in shipped_prompts():
            found += self.model.encode(one.prompt, chat=True)
        if len(found) < length:
            raise ValueError(f"the shipped texts have {len(found)} ids, {length} were asked for")
        return found[:length]


def copy(state: DecodeState) -> DecodeState:
    """A state that may be given away."""
    return jax.tree.map(jax.numpy.copy, state)


def json_settings(bench: Bench) -> dict[str, Any]:
    return {
        "model": MODEL,
        "repetitions": bench.repetitions,
        "threads": bench.threads,
        "prompts": None if bench.prompts is None else bench.prompts.name,
    }
