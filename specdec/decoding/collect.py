"""From a finished state to results: ids, text, records and reason, all cut at one place.

Leaves out: decoding.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from specdec.decoding.engine import Engine
from specdec.decoding.result import FinishReason, Result, RoundRecord, Timing, round_records
from specdec.decoding.state import DecodeState
from specdec.decoding.stop import Reason
from specdec.decoding.text import StopHit, TextCutter


def returned_ids(state: DecodeState) -> list[list[int]]:
    """Ids of every row so far, on the host."""
    history = np.asarray(state.context.history)
    start, count = np.asarray(state.prompt_length), np.asarray(state.returned)
    return [history[row, start[row] : start[row] + count[row]].tolist() for row in range(history.shape[0])]


def collect(
    engine: Engine,
    state: DecodeState,
    prompts: Sequence[Sequence[int]],
    stop_strings: Sequence[Sequence[str]],
    timing: Timing,
) -> list[Result]:
    """Results of a finished state. Text, ids, rounds and reason agree on one cut per row."""
    records = jax.tree.map(np.asarray, state.records)
    reasons, rounds = np.asarray(state.reason), int(state.round)
    results = []
    for row, ids in enumerate(returned_ids(state)):
        cutter = TextCutter(engine.model.tokenizer, stop_strings[row])
        text = cutter.push(ids) + cutter.flush()
        hit, kept = cutter.hit, round_records(records, row, rounds)
        if hit is not None:
            ids, kept = ids[: hit.tokens], cut_rounds(kept, hit.tokens)
        finish, detail = _ending(Reason(int(reasons[row])), ids, hit)
        results.append(
            Result(
                ids=tuple(ids),
                text=text,
                finish_reason=finish,
                detail=detail,
                rounds=kept,
                prompt_ids=tuple(prompts[row]),
                seed=int(state.noise.seed[row]),
                strategy=engine.strategy.name,
                budget=engine.strategy.budget,
                timing=timing,
            )
        )
    return results


def cut_rounds(rounds: Sequence[RoundRecord], tokens: int) -> tuple[RoundRecord, ...]:
    """Rounds of the first `tokens` ids: the one that holds the cut is shortened, later ones did not happen."""
    kept, total = [], 1
    for record in rounds:
        if total >= tokens:
            break
        committed = min(record.committed, tokens - total)
        kept.append(dataclasses.replace(record, committed=committed, accepted=committed - 1))
        total += committed
    return tuple(kept)


def _ending(reason: Reason, ids: Sequence[int], hit: StopHit | None) -> tuple[FinishReason, str]:
    if hit is not None:
        return FinishReason.STOP, hit.string
    if reason == Reason.STOP:
        return FinishReason.STOP, str(ids[-1])
    return FinishReason.LENGTH, "capacity" if reason == Reason.CAPACITY else "max_new_tokens"


def empty_result(engine: Engine, prompt: Sequence[int], seed: int) -> Result:
    """The result of a cap of 0: the target never ran."""
    return Result(
        ids=(),
        text="",
        finish_reason=FinishReason.LENGTH,
        detail="max_new_tokens",
        rounds=(),
        prompt_ids=tuple(prompt),
        seed=seed,
        strategy=engine.strategy.name,
        budget=engine.strategy.budget,
        timing=Timing(0.0, 0.0),
    )
