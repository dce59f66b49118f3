"""`generate`: prompts in, results out.

Leaves out: yielding text as it comes (`stream.py`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from specdec.decoding.collect import collect, empty_result, returned_ids
from specdec.decoding.engine import Engine, row_seeds
from specdec.decoding.policy import Strategy
from specdec.decoding.result import Result, Timing
from specdec.decoding.state import DecodeState
from specdec.decoding.stop import Reason
from specdec.decoding.text import TextCutter
from specdec.errors import SettingsError
from specdec.model import Model, Prompt
from specdec.sampling import Sampling, sample_with

ROUNDS_PER_CHECK = 8  # rounds between two looks for stop strings


def generate(
    model: Model,
    prompt: Prompt | list[str] | list[list[int]],
    *,
    strategy: Strategy | None = None,
    max_new_tokens: int = 256,
    sampling: Sampling | None = None,
    seed: int | Sequence[int] | None = None,
    stop_ids: Sequence[int] | None = None,
    stop_strings: Sequence[str] = (),
    capacity: int | None = None,
    chat: bool | None = None,
) -> Result | list[Result]:
    """Decodes one prompt or a batch; speculation changes the speed, not the output.

    Args:
      model: from `specdec.load`.
      prompt: text, chat messages, or ids; a list of texts or of id lists is a batch.
      strategy: from `specdec.strategies`; None is plain decoding.
      max_new_tokens: most ids to return; 0 returns an empty result without running the target.
      sampling: from `specdec.sample_with`; None is greedy.
      seed: a number (row i uses seed + i), one per row, or None for fresh ones (see `Result.seed`).
      stop_ids: ids that end a row, instead of the model's own.
      stop_strings: strings that end a row; not part of the text.
      capacity: positions per row; None fits the prompt and the cap.
      chat: whether text is a user's turn; None means "if the model has a chat template".

    Returns:
      A `Result`, or a list of them for a batch.

    Raises:
      SettingsError, CompatibilityError, TemplateError: before any compute, saying what to do.
      NumericalError: the target produced NaN.

    Example::

        specdec.generate(model, "What is a tree?", strategy=specdec.strategies.prompt_lookup(8))
    """
    started = time.perf_counter()
    prompts, batched = _as_batch(prompt)
    encoded = [model.encode(item, chat=chat) for item in prompts]
    engine = make_engine(model, strategy, sampling, stop_ids, stop_strings, capacity)
    check_cap(max_new_tokens)
    seeds = row_seeds(seed, len(encoded))
    if max_new_tokens == 0:
        results = [empty_result(engine, ids, int(one)) for ids, one in zip(encoded, seeds, strict=True)]
        return results if batched else results[0]
    state = engine.prefill(encoded, max_new_tokens, [int(one) for one in seeds])
    jax.block_until_ready(state.context.root)
    first = time.perf_counter()
    state = _decode(engine, state, stop_strings)
    timing = Timing(first_token=first - started, decode=time.perf_counter() - first)
    results = collect(engine, state, encoded, [stop_strings] * len(encoded), timing)
    return results if batched else results[0]


def make_engine(
    model: Model,
    strategy: Strategy | None,
    sampling: Sampling | None,
    stop_ids: Sequence[int] | None,
    stop_strings: Sequence[str],
    capacity: int | None,
) -> Engine:
    """An engine from the arguments that `generate` and `stream` share."""
    if strategy is None:
        from specdec.strategies import plain

        strategy = plain()
    if isinstance(stop_strings, str) or any(not isinstance(stop, str) or not stop for stop in stop_strings):
        raise SettingsError(f"stop_strings must be a sequence of non-empty strings, got {stop_strings!r}.")
    if stop_strings and model.tokenizer is None:
        raise SettingsError(f"stop_strings need text, and model {model.name!r} has no tokenizer; use stop_ids.")
    stops = None if stop_ids is None else tuple(int(stop) for stop in stop_ids)
    return Engine(model, strategy, sampling or sample_with(), stops, capacity)


def check_cap(cap: int) -> None:
    """Refuses a cap that is not a whole number >= 0."""
    if isinstance(cap, bool) or not isinstance(cap, int) or cap < 0:
        raise SettingsError(f"max_new_tokens must be a whole number >= 0, got {cap!r}.")


def _as_batch(prompt: Any) -> tuple[list[Any], bool]:
    if isinstance(prompt, str):
        return [prompt], False
    items = list(prompt)
    if items and all(isinstance(item, str) for item in items):
        return items, True
    if items and all(isinstance(item, (list, tuple, np.ndarray)) for item in items):
        return items, True
    return [items], False


def _decode(engine: Engine, state: DecodeState, stop_strings: Sequence[str]) -> DecodeState:
    """Runs to the end; with stop strings, a few rounds at a time, ending rows whose text is complete."""
    if not stop_strings:
        return engine.run_owned(state)
    cutters = [TextCutter(engine.model.tokenizer, stop_strings) for _ in state.prompt_length]
    seen = [0] * len(cutters)
    while True:
        for row, (cutter, ids) in enumerate(zip(cutters, returned_ids(state), strict=True)):
            cutter.push(ids[seen[row] :])
            seen[row] = len(ids)
        state = end_hits(state, cutters)
        if not bool(state.running.any()):
            return state
        state = engine.run_owned(state, ROUNDS_PER_CHECK)


def end_hits(state: DecodeState, cutters: Sequence[TextCutter]) -> DecodeState:
    """Ends the rows whose text has hit a stop string; a row that ended by itself keeps its reason."""
    hits = np.asarray([cutter.hit is not None for cutter in cutters])
    if not hits.any():
        return state
    reason = np.asarray(state.reason)
    reason = np.where(hits & (reason == Reason.RUNNING), Reason.STOP, reason).astype(np.int32)
    return state.replace(reason=jax.numpy.asarray(reason))
