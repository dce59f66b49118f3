import pytest

from specdec import strategies
from specdec.analysis import LabelledPrompt
from specdec.analysis.rows import Run, make_row, usable_nodes
from specdec.builders import BestFirst, Chain
from specdec.decoding import FinishReason, Policy, Result, RoundRecord
from specdec.decoding.result import Timing
from specdec.drafters import PromptLookup


def result(tokens: int, rounds, seconds: float, strategy: str = "plain", budget: int = 1) -> Result:
    return Result(
        ids=tuple(range(tokens)),
        text="",
        finish_reason=FinishReason.LENGTH,
        detail="max_new_tokens",
        rounds=tuple(rounds),
        prompt_ids=(1, 2, 3, 4),
        seed=0,
        strategy=strategy,
        budget=budget,
        timing=Timing(first_token=0.5, decode=seconds),
    )


def record(drafted: int, accepted: int, deepest: int) -> RoundRecord:
    return RoundRecord(drafted, accepted, accepted + 1, deepest, None if drafted else "nothing_proposed")


def test_counters_are_sums_and_times_are_medians():
    prompts = [LabelledPrompt(index, "x", "a") for index in range(3)]
    plain = {
        id(prompt): result(5, [record(0, 0, 0)] * 4, seconds)
        for prompt, seconds in zip(prompts, (1.0, 2.0, 4.0), strict=True)
    }
    rounds = ([record(3, 2, 3), record(1, 1, 1)], [record(3, 3, 3)], [record(3, 0, 2), record(0, 0, 0)] * 2)
    runs = [
        Run(prompt, result(5, each, seconds, "fast", 4), None, peak, 0)
        for prompt, each, seconds, peak in zip(prompts, rounds, (0.5, 2.0, 1.0), (5, 9, 7), strict=True)
    ]
    row = make_row(strategies.prompt_lookup(4).policy, "a", runs, plain, None, 12, exact=True)
    assert (row.strategy, row.budget, row.category, row.prompts, row.identical) == ("fast", 4, "a", 3, 3)
    assert (row.tokens, row.target_passes) == (15, 7)
    assert row.tokens_per_pass == pytest.approx(12 / 7)
    assert (row.drafted, row.accepted) == (13, 6)
    # Five rounds had a node at depth 1, four at depth 2, two at depth 3.
    assert row.accepted_by_depth == pytest.approx((3 / 5, 2 / 4, 1 / 2))
    assert row.tok_per_s == 4.0
    assert row.speedup == 2.0
    assert (row.ttft_ms, row.prefill_tok_per_s) == (500.0, 8.0)
    assert (row.peak_memory_bytes, row.extra_memory_bytes) == (9, 12)
    assert row.fallbacks == {"nothing_proposed": 2}


def test_rates_of_nothing_are_undefined_and_not_zero():
    prompt = LabelledPrompt(1, "x")
    only = result(1, [], 0.1)
    row = make_row(
        strategies.plain().policy, "all", [Run(prompt, only, None, None, 0)], {id(prompt): only}, None, 0, exact=True
    )
    assert row.tokens_per_pass is row.tok_per_s is row.speedup is row.peak_memory_bytes is None
    assert row.accepted_by_depth == ()


@pytest.mark.parametrize(
    ("policy", "nodes"),
    [
        (strategies.plain().policy, 1),
        (strategies.prompt_lookup(8).policy, 8),
        (Policy(PromptLookup(depth=3), Chain(16)), 4),
        (Policy(PromptLookup(depth=2, children=2), BestFirst(16)), 7),
        (Policy(PromptLookup(depth=15, children=1), BestFirst(16, max_depth=5)), 6),
    ],
)
def test_usable_nodes(policy, nodes):
    assert usable_nodes(policy) == nodes
