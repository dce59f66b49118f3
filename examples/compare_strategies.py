"""The same prompts under several strategies: are the ids those of plain decoding, and what did each pass give?

    python examples/compare_strategies.py --model smollm2-135m --tokens 96
    python examples/compare_strategies.py --model toy --tokens 32      # random weights, nothing to download

`specdec compare` measures with warm-up, medians and memory; this shows the few lines that are enough to begin with.
Leaves out: sampling, and first differences that are ties (docs/metrics.md).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from toy_model import load

import specdec
from specdec import Model, Result, Strategy, strategies

PROMPTS = (
    "Summarise this text:\n\nThe northern ferry will stop running in winter. The harbour council said on Tuesday that "
    "the northern ferry loses money between November and March, when few people travel. Residents of the island said "
    "that the northern ferry is their only way to the hospital. The harbour council will meet the residents of the "
    "island next week and will decide in October.",
    "Write a python function to merge two sorted lists.",
)


def candidates(budget: int) -> list[Strategy]:
    """What is compared; the first one is the reference."""
    return [
        strategies.plain(),
        strategies.prompt_lookup(budget, tree=False),
        strategies.prompt_lookup(budget),
    ]


def run(model: Model, prompts: Sequence[str], budget: int, tokens: int) -> dict[str, list[Result]]:
    """Results by strategy, after one unmeasured run of each that compiles it."""
    results = {}
    for strategy in candidates(budget):
        specdec.generate(model, prompts[0], strategy=strategy, max_new_tokens=tokens)
        results[strategy.name] = [
            specdec.generate(model, prompt, strategy=strategy, max_new_tokens=tokens) for prompt in prompts
        ]
    return results


def line(name: str, rows: Sequence[Result], reference: Sequence[Result]) -> str:
    """One strategy's numbers; ratios are ratios of sums over the prompts."""
    same = sum(row.ids == other.ids for row, other in zip(rows, reference, strict=True))
    tokens = sum(len(row.ids) for row in rows)
    passes = sum(row.target_passes for row in rows)
    seconds = sum(row.timing.decode for row in rows)
    per_pass = f"{(tokens - len(rows)) / passes:.2f}" if passes else "-"
    speed = f"{(tokens - len(rows)) / seconds:.1f}" if passes else "-"
    drafts = f"{sum(row.accepted for row in rows)}/{sum(row.drafted for row in rows)}"
    return f"{name:<20} {same}/{len(rows):<6} {tokens:>6} {passes:>6} {per_pass:>9} {drafts:>12} {speed:>7}"


def main(arguments: Sequence[str] | None = None) -> dict[str, list[Result]]:
    """Prints the table and returns what it was made of."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m", help="alias, folder, .gguf file, hub id, or 'toy'")
    parser.add_argument("--tokens", type=int, default=96, help="most tokens to generate per prompt")
    parser.add_argument("--budget", type=int, default=8, help="verified nodes per pass, the root included")
    chosen = parser.parse_args(arguments)
    results = run(load(chosen.model), PROMPTS, chosen.budget, chosen.tokens)
    print(f"{'strategy':<20} {'identical':<8} tokens passes  tok/pass     accepted   tok/s")
    for name, rows in results.items():
        print(line(name, rows, results["plain"]))
    return results


if __name__ == "__main__":
    main()
