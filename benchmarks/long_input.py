"""A long input: articles joined to more than 2,000 tokens, read, and summarised with and without drafts.

Leaves out: the quality of the summary.
"""

from __future__ import annotations

import random

from bench import Bench
from findings import Finding, at_least, exactly

from specdec import Engine, Result, strategies
from specdec.analysis.compare import run_once
from specdec.analysis.ties import judge

TITLE = "Long input"
LEAST, NEW_TOKENS, BUDGETS = 2000, 96, (8, 16)


def run(bench: Bench) -> list[Finding]:
    text, source = _text(bench)
    ids = list(bench.model.encode(text))
    model, settings = bench.model, bench.engine(strategies.plain()).settings
    found = [Finding("prompt", len(ids), "tokens", at_least(LEAST + 1), source)]
    plain = Engine(model, strategies.plain(), settings)
    run_once(plain, ids, NEW_TOKENS, 0, rounds=2)
    expected = run_once(plain, ids, NEW_TOKENS, 0)
    found.append(Finding("prefill", len(ids) / expected.timing.first_token, "tok/s", note="first token included"))
    found.append(_speed("plain", expected))
    for budget in BUDGETS:
        engine = Engine(model, strategies.prompt_lookup(budget), settings)
        run_once(engine, ids, NEW_TOKENS, 0, rounds=2)
        came = run_once(engine, ids, NEW_TOKENS, 0)
        difference = judge("long", plain, engine, expected, came)
        name = f"lookup, budget {budget}"
        note = (
            ""
            if difference is None
            else f"first difference at {difference.position}, gap {difference.gap}, tie: {difference.tie}"
        )
        found.append(Finding(f"{name}: identical to plain", int(difference is None), "", exactly(1), note))
        found.append(Finding(f"{name}: tokens per pass", came.tokens_per_pass, "", note=f"{came.target_passes} passes"))
        found.append(_speed(name, came))
    return found


def _speed(name: str, result: Result) -> Finding:
    tokens = len(result.ids) - 1
    return Finding(f"{name}: decoding", tokens / result.timing.decode, "tok/s", note=f"{tokens} tokens")


def _text(bench: Bench) -> tuple[str, str]:
    """Two summarisation prompts of the file; without a file the shipped ones and generated notes."""
    texts = [one.prompt for one in bench.texts("summarization")]
    if bench.prompts is not None:
        if len(texts) < 2:
            raise ValueError(f"{bench.prompts.name} has {len(texts)} prompts of category summarization, expected 2")
        # The longest two: together they must pass the least length.
        return "\n\n".join(sorted(texts, key=len)[-2:]), f"the two longest summaries of {bench.prompts.name}"
    while len(bench.model.encode("\n\n".join(texts))) <= LEAST:
        texts.append(_notes(len(texts)))
    return "\n\n".join(texts), "shipped articles and generated notes"


def _notes(seed: int) -> str:
    """Plain sentences that repeat names, as reports do; the same for the same seed everywhere."""
    draw = random.Random(seed)
    places, things = ("Alder Bay", "Norwick", "the old mill", "Port Sela"), ("boats", "letters", "lamps", "barrels")
    lines = [
        f"On day {day} the harbour office of {draw.choice(places)} counted {draw.randint(2, 90)} {draw.choice(things)}."
        for day in range(1, 13)
    ]
    return "Summarize these notes:\n" + "\n".join(lines)
