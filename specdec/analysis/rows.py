"""From runs to the rows of a comparison: counters are sums, times are medians over prompts.

Leaves out: running (`compare.py`) and drawing (`report.py`).
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from specdec.analysis.profile import RoundSplit
from specdec.analysis.prompts import LabelledPrompt
from specdec.analysis.ties import FirstDifference
from specdec.builders import Chain
from specdec.decoding.policy import Policy
from specdec.decoding.result import Result, accepted_by_depth

ALL = "all"


@dataclasses.dataclass(frozen=True)
class Run:
    """One prompt decoded by one strategy, after warm-up.

    Args:
      prompt: what was read.  result: what came.
      difference: how it differs from plain decoding, None if not at all.
      peak: high-water mark of memory in bytes.  compilations: programs compiled although everything was warm.
    """

    prompt: LabelledPrompt
    result: Result
    difference: FirstDifference | None
    peak: int | None
    compilations: int


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of a comparison; see the glossary for each number.

    Args:
      strategy, budget: what ran; `budget` counts the root.
      nodes: nodes that one of its passes can use, the root included: at most the budget.
      category: "all" or a category of the prompts.
      prompts: how many.  identical: of them with plain decoding's ids.
      first_differences: where the others leave them.
      tokens: returned ids.  target_passes: after prefill.
      tokens_per_pass: (tokens - prompts) / target_passes; None without a pass.
      drafted, accepted: nodes without the root, and those kept.
      accepted_by_depth: d-th entry: rounds that kept depth d / rounds whose tree reached it.
      ttft_ms: time to the first token, median.
      prefill_tok_per_s: prompt ids / time to the first token, median.
      tok_per_s: (ids - 1) / time after the first one, median.
      speedup: decode rate over plain decoding's on the same prompt, median.
      round_split_ms: stages of a round, medians; None if not measured.
      peak_memory_bytes: largest high-water mark; None if unknown.
      extra_memory_bytes: weights and state of drafter and selector.
      compilations_after_warmup: 0 unless something is wrong.
      fallbacks: rounds without a draft, by reason.
      exact: whether its output has to be plain decoding's. Not part of the JSON.
    """

    strategy: str
    budget: int
    nodes: int
    category: str
    prompts: int
    identical: int
    first_differences: tuple[FirstDifference, ...]
    tokens: int
    target_passes: int
    tokens_per_pass: float | None
    drafted: int
    accepted: int
    accepted_by_depth: tuple[float, ...]
    ttft_ms: float | None
    prefill_tok_per_s: float | None
    tok_per_s: float | None
    speedup: float | None
    round_split_ms: RoundSplit | None
    peak_memory_bytes: int | None
    extra_memory_bytes: int
    compilations_after_warmup: int
    fallbacks: Mapping[str, int]
    exact: bool = True

    def to_json(self) -> dict[str, Any]:
        """Plain values under the names that other tools read."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del values["exact"]
        values["first_differences"] = [
            {"prompt": one.prompt, "position": one.position, "gap": one.gap, "tie": one.tie}
            for one in self.first_differences
        ]
        values["accepted_by_depth"] = list(self.accepted_by_depth)
        values["round_split_ms"] = None if self.round_split_ms is None else dataclasses.asdict(self.round_split_ms)
        values["fallbacks"] = dict(self.fallbacks)
        return values


def make_row(
    policy: Policy,
    category: str,
    runs: Sequence[Run],
    plain: Mapping[int, Result],
    split: RoundSplit | None,
    extra: int,
    *,
    exact: bool,
) -> Row:
    """Sums up runs of one strategy.

    Args:
      policy: of the strategy.
      category: as the row names it.
      runs: at least one.
      plain: plain decoding's results, by `id()` of the prompt.
      split: stages of its rounds.
      extra: bytes of its drafter and selector.
      exact: see `Row`.
    """
    results = [run.result for run in runs]
    rounds = [record for result in results for record in result.rounds]
    tokens, passes = sum(len(result.ids) for result in results), len(rounds)
    peaks = [run.peak for run in runs if run.peak is not None]
    pairs = [(decode_rate(plain[id(run.prompt)]), decode_rate(run.result)) for run in runs]
    return Row(
        strategy=results[0].strategy,
        budget=results[0].budget,
        nodes=usable_nodes(policy),
        category=category,
        prompts=len(runs),
        identical=sum(run.difference is None for run in runs),
        first_differences=tuple(run.difference for run in runs if run.difference is not None),
        tokens=tokens,
        target_passes=passes,
        tokens_per_pass=(tokens - len(runs)) / passes if passes else None,
        drafted=sum(result.drafted for result in results),
        accepted=sum(result.accepted for result in results),
        accepted_by_depth=accepted_by_depth(rounds),
        ttft_ms=_median(1000 * result.timing.first_token for result in results),
        prefill_tok_per_s=_median(len(result.prompt_ids) / result.timing.first_token for result in results),
        tok_per_s=_median(decode_rate(result) for result in results),
        speedup=_median(mine / base for base, mine in pairs if base and mine),
        round_split_ms=split,
        peak_memory_bytes=max(peaks, default=None),
        extra_memory_bytes=extra,
        compilations_after_warmup=sum(run.compilations for run in runs),
        fallbacks=dict(sum((Counter(result.fallbacks) for result in results), Counter[str]())),
        exact=exact,
    )


def decode_rate(result: Result) -> float | None:
    """Ids per second after the first one; None when the prefill gave all there is."""
    tokens = len(result.ids) - 1
    return tokens / result.timing.decode if tokens > 0 and result.timing.decode > 0 else None


def usable_nodes(policy: Policy) -> int:
    """Nodes of one pass that a policy can fill, the root included: a short chain cannot fill a large budget.

    Args:
      policy: with its selector resolved or its drafter's own.

    Example:
      >>> from specdec.drafters import PromptLookup
      >>> usable_nodes(Policy(PromptLookup(depth=3), Chain(8)))
      4
    """
    selector = policy.selector or policy.drafter.selector
    builder = policy.builder
    limits = [getattr(part, "depth", None) for part in (policy.drafter, selector)]
    depth = min([builder.max_depth, *(limit for limit in limits if isinstance(limit, int))])
    width = 1 if isinstance(builder, Chain) else getattr(selector, "children", 1)
    nodes, level = 1, 1
    for _ in range(depth):
        level *= width
        nodes += level
        if nodes >= builder.num_nodes:
            return builder.num_nodes
    return nodes


def _median(values: Iterable[float | None]) -> float | None:
    kept = [value for value in values if value is not None and math.isfinite(value)]
    return statistics.median(kept) if kept else None
