import dataclasses
import json

import jax.numpy as jnp
import pytest
from analysis import small

from specdec import strategies
from specdec.analysis import Comparison, LabelledPrompt, compare
from specdec.decoding import Policy, Strategy
from specdec.drafters import Script, Scripted
from specdec.errors import SettingsError
from specdec.sampling import sample_with
from specdec.verifiers import Coupled, Greedy, TargetOnly

PROMPTS = [
    LabelledPrompt("first", small.PROMPT, "animals"),
    LabelledPrompt("second", "the quick brown fox jumps over the lazy dog", "animals"),
    LabelledPrompt(3, "2024 2024 2024 2024", "numbers"),
]
FIELDS = [
    *("strategy", "budget", "nodes", "category", "prompts", "identical", "first_differences", "tokens"),
    *("target_passes", "tokens_per_pass", "drafted", "accepted", "accepted_by_depth", "ttft_ms", "prefill_tok_per_s"),
    *("tok_per_s", "speedup", "round_split_ms", "peak_memory_bytes", "extra_memory_bytes"),
    *("compilations_after_warmup", "fallbacks"),
]


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    lookup = strategies.prompt_lookup
    drafted = strategies.draft_model(small.model(), 4)
    return compare(small.model(), PROMPTS, [lookup(4), lookup(8), drafted], max_new_tokens=24)


def test_json_has_exactly_the_agreed_names(comparison: Comparison):
    value = json.loads(json.dumps(comparison.to_json(), allow_nan=False))
    assert list(value) == ["model", "settings", "environment", "rows"]
    assert [list(row) for row in value["rows"]] == [FIELDS] * len(value["rows"])
    assert set(value["rows"][0]["round_split_ms"]) == {"draft", "build", "verify", "commit"}
    assert {"versions", "platform", "backend", "dtype", "cores", "xla_flags"} <= set(value["environment"])


def test_a_row_per_strategy_budget_and_category(comparison: Comparison):
    found = [(row.strategy, row.budget, row.category, row.prompts) for row in comparison.rows]
    kinds = [("plain", 1), ("prompt_lookup", 4), ("prompt_lookup", 8), ("draft_model", 4)]
    sizes = [("all", 3), ("animals", 2), ("numbers", 1)]
    assert found == [(*kind, *size) for kind in kinds for size in sizes]


def test_everything_is_plain_decoding(comparison: Comparison):
    assert all(row.identical == row.prompts for row in comparison.rows)
    assert not comparison.faults
    assert len({result.ids for result in comparison.results["prompt_lookup", 8]}) == 3


def test_counters_agree_with_each_other(comparison: Comparison):
    for row in comparison.rows:
        assert row.accepted <= row.drafted
        assert row.tokens == row.prompts + row.target_passes + row.accepted
        assert row.tokens_per_pass == pytest.approx((row.tokens - row.prompts) / row.target_passes)
        assert row.compilations_after_warmup == 0
        assert all(0 <= share <= 1 for share in row.accepted_by_depth)
        assert row.nodes <= row.budget
        assert row.ttft_ms > 0 and row.tok_per_s > 0 and row.speedup > 0
    for kind in {(row.strategy, row.budget) for row in comparison.rows}:
        rows = [row for row in comparison.rows if (row.strategy, row.budget) == kind]
        for name in ("tokens", "drafted", "accepted", "target_passes"):
            assert getattr(rows[0], name) == sum(getattr(row, name) for row in rows[1:])


def test_the_target_as_its_own_drafter_is_always_right(comparison: Comparison):
    row = next(row for row in comparison.totals if row.strategy == "draft_model")
    assert row.accepted == row.drafted
    assert row.accepted_by_depth == (1.0, 1.0, 1.0)


def test_memory(comparison: Comparison):
    plain, lookup, _, drafted = comparison.totals
    assert plain.extra_memory_bytes == lookup.extra_memory_bytes == 0
    # Its weights are the target's; the cache is its own: keys and values, 2 layers, 2 heads of 16, float32.
    positions = comparison.settings["capacity"] + 64
    assert drafted.extra_memory_bytes == 2 * 2 * 2 * 16 * 4 * positions + 4
    assert all(row.peak_memory_bytes is None or row.peak_memory_bytes > 2**20 for row in comparison.totals)


@dataclasses.dataclass(frozen=True)
class Wrong(Greedy):
    """Greedy with a fault: the id after an accepted draft is off by one."""

    def walk(self, logits, tree, context, settings, noise):
        right = super().walk(logits, tree, context, settings, noise)
        return right.replace(bonus=(right.bonus + (right.accepted > 0).astype(right.bonus.dtype)) % small.VOCAB)


def test_a_real_fault_is_no_tie():
    strategy = strategies.draft_model(small.model(), 4, verifier=Wrong())
    found = compare(small.model(), PROMPTS[:1], [strategy], max_new_tokens=12, split=False)
    (row,) = found.faults
    (difference,) = row.first_differences
    assert (row.identical, difference.prompt, difference.tie) == (0, "first", False)
    assert difference.gap > 1e-3
    assert row.round_split_ms is None


def test_a_drafter_that_never_drafts_is_idle():
    drafter = Scripted(Script.RIGHT, small.VOCAB, depth=0)
    base = strategies.prompt_lookup(4)
    idle = Strategy("idle", Policy(drafter, base.policy.builder), jnp.zeros((1, 64), jnp.int32))
    found = compare(small.model(), PROMPTS[:1], [idle], max_new_tokens=8, split=False)
    assert [row.strategy for row in found.idle] == ["idle"]
    assert found.totals[1].fallbacks["nothing_proposed"] > 0


def test_sampling_repeats_plain_decoding_with_the_coupled_verifier():
    sampling = sample_with(0.7, top_k=20)
    lookup = [strategies.prompt_lookup(4)]
    sampled = compare(small.model(), PROMPTS[:2], lookup, max_new_tokens=16, sampling=sampling, seed=3, split=False)
    assert all(row.identical == row.prompts for row in sampled.rows)
    assert sampled.settings["temperature"] == 0.7
    assert (sampled.settings["top_k"], sampled.settings["top_p"]) == (20, None)
    assert not sampled.faults


def test_reference_has_the_common_verifier():
    settings = {"max_new_tokens": 4, "sampling": sample_with(1.0), "split": False}
    own = [strategies.prompt_lookup(4, verifier=TargetOnly())]
    assert not compare(small.model(), PROMPTS[:1], own, **settings).totals[1].exact
    mixed = [strategies.prompt_lookup(4, verifier=TargetOnly()), strategies.prompt_lookup(8, verifier=Coupled())]
    assert [row.exact for row in compare(small.model(), PROMPTS[:1], mixed, **settings).totals] == [True, False, True]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"prompts": []}, "at least one prompt"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"capacity": 8}, "prompt first: the prompt has"),
        ({"strategies": [strategies.prompt_lookup(4), strategies.prompt_lookup(4, max_ngram=2)]}, "given twice"),
    ],
)
def test_refusals(change, why):
    given = {"prompts": PROMPTS, "strategies": [strategies.prompt_lookup(4)], "max_new_tokens": 4, **change}
    with pytest.raises(SettingsError, match=why):
        compare(small.model(), given.pop("prompts"), given.pop("strategies"), **given)


def test_progress_counts_to_its_end():
    seen = []
    compare(
        small.model(), PROMPTS[:1], [], max_new_tokens=4, progress=lambda done, total, label: seen.append((done, total))
    )
    assert [done for done, _ in seen] == list(range(len(seen)))
    assert seen[-1][0] == seen[-1][1]
