"""Fills the tables of a page from what was measured.

    python docs/fill_tables.py BENCH.json [--page PAGE] [--compare NAME=FILE]

A slot begins with `<!-- bench:NAME -->` or `<!-- compare:NAME -->` and ends with `<!-- /bench -->` or
`<!-- /compare -->`; what lies between is replaced. `bench:environment` says what the measurement ran on. A slot
without a measurement is left alone.
Leaves out: measuring (`benchmarks/run.py`, `specdec compare --json`).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "performance.md"
SLOT = re.compile(r"(<!-- (bench|compare):([\w-]+) -->\n)(.*?)(<!-- /\2 -->)", re.DOTALL)

Fill = Callable[[str, str], str | None]
"""From the kind and name of a slot to its new text; None leaves it alone."""


def fill(page: str, text_of: Fill) -> str:
    """The page with every slot filled that `text_of` has something for."""

    def replace(match: re.Match[str]) -> str:
        text = text_of(match[2], match[3])
        return match[0] if text is None else f"{match[1]}{text}\n{match[5]}"

    return SLOT.sub(replace, page)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """A Markdown table; `right` names columns of numbers."""
    rule = ["---:" if index in right else "---" for index in range(len(head))]
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (head, rule, *rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def number(value: float | None, unit: str = "") -> str:
    """Three digits or so, with the unit; "-" for what could not be had."""
    if value is None:
        return "-"
    text = str(int(value)) if value == int(value) and abs(value) < 1e6 else f"{value:.2f}"
    if abs(value) >= 100 and value != int(value):
        text = f"{value:.0f}"
    return f"{text} {unit}".rstrip()


def findings_table(benchmark: Mapping[str, Any]) -> str:
    """One benchmark: measured value, goal, whether it is met, and what is needed to read it."""
    if "error" in benchmark:
        return f"This benchmark failed: {benchmark['error']}."
    rows = [
        (
            one["name"].strip(),
            number(one["value"], one["unit"]),
            f"{one['goal']['kind']} {one['goal']['limit']:g}" if one["goal"] else "",
            {True: "met", False: "**missed**", None: ""}[one["met"]],
            one["note"],
        )
        for one in benchmark["findings"]
    ]
    return table(("", "measured", "goal", "", "note"), rows, right=(1, 2))


def environment_lines(report: Mapping[str, Any]) -> str:
    """What the measurement ran on, and its own warnings."""
    where = report["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    flags = where["xla_flags"] or "none"
    lines = [
        f"* {where['system']}, {where['cores']} cores, platform {where['platform']}, {where['dtype']}",
        f"* XLA flags: {flags}",
        f"* Python {where['python']}, {versions}",
        f"* {report['settings']['repetitions']} repetitions of every call, {report['settings']['threads']} threads",
    ]
    return "\n".join(lines + [f"* Warning of the run: {warning}" for warning in report["warnings"]])


def comparison_table(comparison: Mapping[str, Any]) -> str:
    """The rows over all prompts of one `specdec compare --json`."""
    rows = [
        (
            row["strategy"],
            str(row["budget"]),
            str(row["nodes"]),
            f"{row['identical']}/{row['prompts']}",
            str(sum(one["tie"] for one in row["first_differences"])),
            number(row["tokens_per_pass"]),
            f"{row['accepted']}/{row['drafted']}",
            number(row["tok_per_s"]),
            number(row["speedup"], "x"),
        )
        for row in comparison["rows"]
        if row["category"] == "all"
    ]
    head = ("strategy", "budget", "nodes", "identical", "ties", "tokens/pass", "accepted", "tok/s", "speed-up")
    return table(head, rows, right=range(1, len(head)))


def filler(report: Mapping[str, Any] | None, comparisons: Mapping[str, Mapping[str, Any]]) -> Fill:
    """Slots by name."""

    def text_of(kind: str, name: str) -> str | None:
        if kind == "compare":
            return comparison_table(comparisons[name]) if name in comparisons else None
        if report is None:
            return None
        if name == "environment":
            return environment_lines(report)
        return findings_table(report["benchmarks"][name]) if name in report["benchmarks"] else None

    return text_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Rewrites the page; exits with 1 if it has no slot at all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", type=Path, nargs="?", metavar="BENCH.json", help="from benchmarks/run.py --json")
    parser.add_argument("--page", type=Path, default=PAGE, help="default: docs/performance.md")
    parser.add_argument(
        "--compare",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="from specdec compare --json; may be repeated",
    )
    chosen = parser.parse_args(arguments)
    report = None if chosen.bench is None else json.loads(chosen.bench.read_text(encoding="utf-8"))
    pairs = [item.partition("=") for item in chosen.compare]
    comparisons = {name: json.loads(Path(file).read_text(encoding="utf-8")) for name, _, file in pairs}
    page = chosen.page.read_text(encoding="utf-8")
    if not SLOT.search(page):
        print(f"{chosen.page}: no slot found", file=sys.stderr)
        return 1
    chosen.page.write_text(fill(page, filler(report, comparisons)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
