"""`compare`: the same prompts through several strategies, checked against plain decoding and timed.

Prompts are the outer loop and strategies the inner one, so that a busy machine slows all of them alike.
Leaves out: batches; every prompt is decoded alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from specdec.analysis.compile_counter import CompileCounter
from specdec.analysis.environment import environment
from specdec.analysis.memory import PeakMemory
from specdec.analysis.prompts import LabelledPrompt
from specdec.analysis.rows import ALL, Row, Run, make_row
from specdec.analysis.running import common_capacity, run_once, split_over, warm_up
from specdec.analysis.ties import is_exact, judge
from specdec.decoding.engine import Engine
from specdec.decoding.policy import Strategy
from specdec.decoding.result import Result
from specdec.errors import SettingsError
from specdec.model import Model, Prompt
from specdec.sampling import Sampling, sample_with

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
        return tuple(row for row in self.totals if row.exact and not all(one.tie for one in row.first_differences))

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

    Example::

        compare(model, shipped_prompts()[:4], [specdec.strategies.prompt_lookup(8)])
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
    positions = common_capacity(model, encoded, max_new_tokens, capacity)
    engines = [Engine(model, each, settings, stops, positions) for each in _with_plain(strategies)]
    for item, ids in zip(labelled, encoded, strict=True):
        _check_fits(engines[0], item, ids)

    steps = _Steps(progress, len(engines) * (len(labelled) + 1 + split))
    extras = []
    compiled: set[tuple[Any, int]] = set()
    for engine in engines:
        steps.next(f"warming up {engine.strategy.name}")
        extras.append(warm_up(engine, encoded, max_new_tokens, seed, compiled))
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
    splits = []
    for engine in engines:
        if split:
            steps.next(f"timing the stages of {engine.strategy.name}")
        splits.append(split_over(engine, encoded, max_new_tokens, seed) if split else None)
    steps.next("done")

    plain = {id(run.prompt): run.result for run in runs[0]}
    categories = list(dict.fromkeys(item.category for item in labelled if item.category not in (None, ALL)))
    rows = [
        make_row(engine.plan.policy, category, chosen, plain, time_split, extra, exact=is_exact(engine, engines[0]))
        for engine, found, time_split, extra in zip(engines, runs, splits, extras, strict=True)
        for category in (ALL, *categories)
        if (chosen := [run for run in found if category in (ALL, run.prompt.category)])
    ]
    return Comparison(
        model=model.name,
        settings={
            "prompts": len(labelled),
            "max_new_tokens": max_new_tokens,
            **_sampling_values(settings),
            "seed": seed,
            "capacity": positions,
        },
        environment={**environment(model), "peak_memory": peak.source.value},
        rows=tuple(rows),
        results={
            (engine.strategy.name, engine.strategy.budget): tuple(run.result for run in found)
            for engine, found in zip(engines, runs, strict=True)
        },
    )


class _Steps:
    """Counts steps for whoever watches."""

    def __init__(self, progress: Progress | None, total: int):
        self._progress, self._total, self._done = progress, total, 0

    def next(self, label: str) -> None:
        if self._progress is not None:
            self._progress(self._done, self._total, label)
        self._done += 1


def _with_plain(strategies: Sequence[Strategy]) -> list[Strategy]:
    """Plain decoding first, then every strategy and budget once.

    If all of them name the same lossless verifier, so does plain decoding.
    """
    from specdec.strategies import plain

    chosen: dict[tuple[str, int], Strategy] = {}
    for strategy in strategies:
        key = (strategy.name, strategy.budget)
        if key in chosen:
            raise SettingsError(f"strategy {key[0]} with budget {key[1]} is given twice; rename one of the two.")
        chosen[key] = strategy
    named = {strategy.policy.verifier for strategy in strategies}
    common = named.pop() if len(named) == 1 else None
    reference = chosen.pop(("plain", 1), None)
    if reference is None:
        reference = plain(verifier=None if common is None or common.lossy else common)
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


def _check_fits(engine: Engine, item: LabelledPrompt, ids: Sequence[int]) -> None:
    try:
        engine.check_prompt(len(ids))
    except SettingsError as error:
        raise SettingsError(f"prompt {item.id}: {error}") from error
