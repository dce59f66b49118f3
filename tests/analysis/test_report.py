import dataclasses
import io

import pytest
from analysis import small
from rich.console import Console

import specdec
from specdec import strategies
from specdec.analysis import Comparison, FirstDifference, LabelledPrompt, compare, result_report
from specdec.analysis.report import attention, comparison_report, describe


def text(renderable, width: int = 150) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(renderable)
    return console.file.getvalue()


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    prompts = [LabelledPrompt(1, small.PROMPT, "animals")]
    return compare(small.model(), prompts, [strategies.prompt_lookup(4)], max_new_tokens=24)


def test_tables_name_every_column(comparison):
    page = text(comparison)
    for word in (
        "identical", "tokens", "passes", "tokens/pass", "nodes", "drafted", "accepted", "by depth", "first token",
        "prefill", "decode tok/s", "speed-up", "peak MiB", "extra MiB", "compiled", "fallbacks", "nothing_proposed",
    ):  # fmt: skip
        assert word in page, word
    assert "animals" not in page
    assert "animals" in text(comparison_report(comparison, by_category=True))
    assert "attention" not in page


def test_what_must_not_be_overlooked(comparison):
    plain, row = comparison.totals
    difference = FirstDifference(1, 4, 0.5, False, 1e-6)
    bad = dataclasses.replace(row, identical=0, first_differences=(difference,))
    wrong = dataclasses.replace(comparison, rows=(plain, bad))
    assert "WRONG OUTPUT: prompt_lookup" in text(wrong)
    assert "NOT A TIE" in text(wrong)
    idle = dataclasses.replace(row, drafted=0, accepted=0)
    assert "NO SPECULATION" in text(dataclasses.replace(comparison, rows=(plain, idle)))
    warm = dataclasses.replace(row, compilations_after_warmup=2)
    assert "compiled 2" in attention(dataclasses.replace(comparison, rows=(plain, warm)))[0]


def test_ties_are_printed_and_are_no_fault(comparison):
    plain, row = comparison.totals
    tied = dataclasses.replace(row, identical=0, first_differences=(FirstDifference(1, 4, 1e-6, True, 2e-6),))
    found = dataclasses.replace(comparison, rows=(plain, tied))
    assert not found.faults
    assert "a tie" in text(found) and "WRONG" not in text(found)


def test_differences_in_words():
    assert "NOT A TIE" in describe(FirstDifference(1, 0, None, False))
    assert "need not repeat" in describe(FirstDifference(1, 0, None, False), exact=False)


def test_html_for_notebooks(comparison):
    assert "tokens/pass" in comparison._repr_html_()


def test_result_report():
    result = specdec.generate(small.model(), small.PROMPT, strategy=strategies.prompt_lookup(4), max_new_tokens=24)
    page = text(result_report(result))
    assert result.summary() in " ".join(page.split())
    assert "nothing_proposed" in page
