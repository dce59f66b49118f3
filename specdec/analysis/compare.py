"""`compare`: the same prompts through several strategies, checked against plain decoding and timed.

Prompts are the outer loop and strategies the inner one, so that a busy machine slows all of them alike.
Leaves out: batches; every prompt is decoded alone.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax

from specdec.analysis.compile_counter import CompileCounter
from specdec.analysis.environment import environment
from specdec.analysis.memory import PeakMemory, extra_bytes
from specdec.analysis.profile import RoundSplit, split_of, stage_times
from specdec.analysis.prompts import LabelledPrompt
from specdec.analysis.rows import ALL, Row, Run, make_row
from specdec.analysis.ties import judge
from specdec.decoding.collect import collect
from specdec.decoding.engine import Engine
from specdec.decoding.policy import Strategy
from specdec.decoding.prefill import schedule
from specdec.decoding.result import Result, Timing
from specdec.drafters import Stateless
from specdec.errors import SettingsError
from specdec.model import Model, Prompt
from specdec.sampling import Sampling, sample_with

WARM_ROUNDS = 2
SPLIT_PROMPTS, SPLIT_ROUNDS = 3, 12

Progress = Callable[[int, int, str], None]
"""Called with (steps done, steps in all, what comes next)."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What `compare` found.

    Args:
      model: its name.
      settings: of the decoding.
      environment: what it ran on.
      rows: plain decoding first; per strategy and budget one for all prompts, then one per category.
      results: every generation by (strategy, budget), in the order of the prompts. Not part of the JSON.
    """

    model: str
    settings: dict[str, Any]
    environment: dict[str, Any]
    rows: tuple[Row, ...]
    results: dict[tuple[str, int], tuple[Result, ...]] = dataclasses.field(repr=False)

    @property
    def totals(self) -> tuple[Row, ...]:
        """The rows over all prompts."""
        return tuple(row for row in self.rows if row.category == ALL)

    @property
    def faults(self) -> tuple[Row, ...]:
        """Rows over all prompts whose output differs from plain decoding's in a way that rounding cannot explain."""
        if not self.settings["repeats_plain"]:
            return ()
        return tuple(row for row in self.totals if not all(one.tie for one in row.first_differences))

    @property
    def idle(self) -> tuple[Row, ...]:
        """Rows over all prompts of strategies that were to draft and never did."""
        return tuple(row for row in self.totals if row.budget > 1 and row.drafted == 0)

    def to_json(self) -> dict[str, Any]:
        """Plain values under the names that other tools read."""
        return {
            "model": self.model,
            "settings": self.settings,
            "environment": self.environment,
            "rows": [row.to_json() for row in self.rows],
        }

    def __rich__(self) -> Any:
        from specdec.analysis.report import comparison_report

        return comparison_report(self)

    def _repr_html_(self) -> str:
        from specdec.analysis.report import to_html

        return to_html(self.__rich__())


def compare(
    model: Model,
    prompts: Sequence[LabelledPrompt | Prompt],
    strategies: Sequence[Strategy],
    *,
    max_new_tokens: int = 128,
    sampling: Sampling | None = None,
    seed: int = 0,
    stop_ids: Sequence[int] | None = None,
    capacity: int | None = None,
    chat: bool | None = None,
    split: bool = True,
    progress: Progress | None = None,
) -> Comparison:
    """Decodes every prompt with every strategy and with plain decoding, which is the reference.

    Args:
      model: from `specdec.load`.
      prompts: from `read_prompts` or `shipped_prompts`, or plain prompts as `generate` takes them.
      strategies: from `specdec.strategies`; plain decoding is added if it is not among them.
      max_new_tokens: ids per prompt, at least 1.
      sampling: None is greedy.
      seed: of every prompt; sampled output repeats plain decoding's for the same seed.
      stop_ids: instead of the model's own.
      capacity: positions per row; None fits the longest prompt, the same for all of them.
      chat: as in `generate`.
      split: also time the four stages of a round, for which they are compiled one by one.
      progress: told about every step.

    Raises:
      SettingsError, CompatibilityError: before any compute.

    Example:
      >>> compare(model, shipped_prompts()[:4], [specdec.strategies.prompt_lookup(8)])  # doctest: +SKIP
    """
    if isinstance(max_new_tokens, bool) or not isinstance(max_new_tokens, int) or max_new_tokens < 1:
        raise SettingsError(f"max_new_tokens must be a whole number >= 1, got {max_new_tokens!r}.")
    labelled = [
        item if isinstance(item, LabelledPrompt) else LabelledPrompt(number, item)
        for number, item in enumerate(prompts, 1)
    ]
    if not labelled:
        raise SettingsError("compare needs at least one prompt.")
    encoded = [model.encode(item.prompt, chat=chat) for item in labelled]
    settings = sampling or sample_with()
    stops = None if stop_ids is None else tuple(stop_ids)
    positions = _positions(model, encoded, max_new_tokens, capacity)
    engines = [Engine(model, each, settings, stops, positions) for each in _with_plain(strategies, settings)]
    for item, ids in zip(labelled, encoded, strict=True):
        _check_fits(engines[0], item, ids)

    steps = _Steps(progress, len(engines) * (len(labelled) + 1 + split))
    extras = []
    compiled: set[tuple[Any, int]] = set()
    for engine in engines:
        steps.next(f"warming up {engine.strategy.name}")
        extras.append(_warm(engine, encoded, max_new_tokens, seed, compiled))
    runs: list[list[Run]] = [[] for _ in engines]
    peak = PeakMemory()
    for item, ids in zip(labelled, encoded, strict=True):
        for engine, found in zip(engines, runs, strict=True):
            steps.next(f"prompt {item.id}: {engine.strategy.name} {engine.strategy.budget}")
            with peak, CompileCounter() as fresh:
                result = run_once(engine, ids, max_new_tokens, seed)
            difference = None
            if found is not runs[0]:
                difference = judge(item.id, engines[0], engine, runs[0][-1].result, result)
            found.append(Run(item, result, difference, peak.bytes, fresh.count))
    splits: list[RoundSplit | None] = []
    for engine in engines:
        if split:
            steps.next(f"timing the stages of {engine.strategy.name}")
        splits.append(_split(engine, encoded, max_new_tokens, seed) if split else None)
    steps.next("done")

    plain = {id(run.prompt): run.result for run in runs[0]}
    categories = list(dict.fromkeys(item.category for item in labelled if item.category is not None))
    rows = [
        make_row(engine.plan.policy, category, chosen, plain, time_split, extra)
        for engine, found, time_split, extra in zip(engines, runs, splits, extras, strict=True)
        for category in (ALL, *categories)
        if (chosen := [run for run in found if category in (ALL, run.prompt.category)])
    ]
    verifier = engines[0].plan.policy.verifier
    assert verifier is not None
    return Comparison(
        model=model.name,
        settings={
            "prompts": len(labelled),
            "max_new_tokens": max_new_tokens,
            **_sampling_values(settings),
            "seed": seed,
            "capacity": positions,
            "repeats_plain": verifier.shares_target_noise,
        },
        environment={**environment(model), "peak_memory": peak.source.value},
        rows=tuple(rows),
        results={
            (engine.strategy.name, engine.strategy.budget): tuple(run.result for run in found)
            for engine, found in zip(engines, runs, strict=True)
        },
    )


def run_once(engine: Engine, ids: Sequence[int], max_new_tokens: int, seed: int, rounds: int | None = None) -> Result:
    """One timed generation from ids, or its first rounds.

    Args:
      engine: model, strategy and settings.
      ids: the prompt.
      max_new_tokens: ids to return.
      seed: of the row.
      rounds: stop after so many; None goes on to the end.
    """
    started = time.perf_counter()
    state = jax.block_until_ready(engine.prefill([ids], max_new_tokens, [seed]))
    first = time.perf_counter()
    state = jax.block_until_ready(engine.run_owned(state, rounds))
    timing = Timing(first_token=first - started, decode=time.perf_counter() - first)
    return collect(engine, state, [ids], [()], timing)[0]


class _Steps:
    """Counts steps for whoever watches."""

    def __init__(self, progress: Progress | None, total: int):
        self._progress, self._total, self._done = progress, total, 0

    def next(self, label: str) -> None:
        if self._progress is not None:
            self._progress(self._done, self._total, label)
        self._done += 1


def _with_plain(strategies: Sequence[Strategy], settings: Sampling) -> list[Strategy]:
    """Plain decoding first, verified like the others, then every strategy and budget once."""
    from specdec.strategies import plain

    chosen: dict[tuple[str, int], Strategy] = {}
    for strategy in strategies:
        key = (strategy.name, strategy.budget)
        if key in chosen:
            raise SettingsError(f"strategy {key[0]} with budget {key[1]} is given twice; rename one of the two.")
        chosen[key] = strategy
    verifiers = {type(each.policy.verifier): each.policy.verifier for each in strategies}
    if len(verifiers) > 1:
        raise SettingsError("compare checks all strategies against one reference; give all of them the same verifier.")
    reference = chosen.pop(("plain", 1), None) or plain(verifier=next(iter(verifiers.values()), None))
    return [reference, *chosen.values()]


def _sampling_values(settings: Sampling) -> dict[str, float | int | None]:
    """Settings as the user gave them; None for what is off."""
    if settings.greedy:
        return {"temperature": 0.0, "top_k": None, "top_p": None, "min_p": None}
    top_k, top_p, min_p = int(settings.top_k), float(settings.top_p), float(settings.min_p)
    return {
        "temperature": round(float(settings.temperature), 6),  # float32 keeps about 7 digits
        "top_k": top_k if top_k < 2**31 - 1 else None,
        "top_p": round(top_p, 6) if top_p < 1 else None,
        "min_p": round(min_p, 6) if min_p > 0 else None,
    }


def _positions(model: Model, encoded: Sequence[Sequence[int]], cap: int, capacity: int | None) -> int:
    """One capacity for all prompts, so that nothing is compiled twice."""
    if capacity is not None:
        return capacity
    longest = max(len(ids) for ids in encoded) + cap
    return min(model.target.max_positions, max(1 << (longest - 1).bit_length(), 512))


def _check_fits(engine: Engine, item: LabelledPrompt, ids: Sequence[int]) -> None:
    try:
        engine.check_prompt(len(ids))
    except SettingsError as error:
        raise SettingsError(f"prompt {item.id}: {error}") from error


def _warm(engine: Engine, encoded: Sequence[Sequence[int]], cap: int, seed: int, compiled: set[tuple[Any, int]]) -> int:
    """Compiles whatever the runs will need; returns the bytes that drafter and selector hold.

    Drafters that keep nothing share the passes over a prompt with plain decoding: `compiled` holds (who reads along,
    size of the chunk) of those passes.
    """
    drafter = engine.plan.policy.drafter
    listener = None if isinstance(drafter, Stateless) else drafter
    shortest = min(encoded, key=len)
    for ids in (shortest, *sorted(encoded, key=len, reverse=True)):
        sizes = schedule(len(ids), engine.model.target.backend.prefill_chunk, 1 << 30)
        needed = {(listener, size) for _, size in sizes}
        if ids is shortest or not needed <= compiled:
            compiled |= needed
            run_once(engine, ids, cap, seed, WARM_ROUNDS)
    return extra_bytes(engine, engine.prefill([shortest], cap, [seed]).drafter)


def _split(engine: Engine, encoded: Sequence[Sequence[int]], cap: int, seed: int) -> RoundSplit:
    """Stages of a round over the first few prompts."""
    times = []
    for ids in encoded[:SPLIT_PROMPTS]:
        times += stage_times(engine, engine.prefill([ids], cap, [seed]), SPLIT_ROUNDS)
    return split_of(times)
