"""Tables of pages come from measurements, by script."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest
from package_layout import ROOT

SCRIPT = runpy.run_path(str(ROOT / "docs" / "fill_tables.py"))
PAGE = "before\n<!-- bench:width -->\nold\n<!-- /bench -->\nbetween\n<!-- bench:other -->\nkept\n<!-- /bench -->\n"
FINDING = {"name": "8 nodes / 1 node", "value": 1.234, "unit": "x", "note": "a | b", "detail": {}}
REPORT = {
    "settings": {"repetitions": 3, "threads": 2},
    "warnings": ["busy"],
    "environment": {
        "python": "3.11",
        "versions": {"jax": "0.10.2"},
        "system": "Linux",
        "platform": "cpu",
        "dtype": "float32",
        "cores": 2,
        "xla_flags": "",
    },
    "benchmarks": {
        "width": {"title": "t", "findings": [{**FINDING, "goal": {"kind": "<=", "limit": 1.5}, "met": True}]},
        "read": {"title": "t", "findings": [{**FINDING, "value": None, "goal": None, "met": None}]},
        "peers": {"title": "t", "error": "OSError: gone"},
    },
}


def test_a_slot_is_replaced_and_the_rest_is_kept(tmp_path: Path):
    page, bench = tmp_path / "page.md", tmp_path / "bench.json"
    page.write_text(PAGE)
    bench.write_text(json.dumps(REPORT))
    assert SCRIPT["main"]([str(bench), "--page", str(page)]) == 0
    once = page.read_text()
    assert "| 8 nodes / 1 node | 1.23 x | <= 1.5 | met | a \\| b |" in once
    assert "old" not in once
    assert once.startswith("before\n<!-- bench:width -->\n")
    assert once.endswith("<!-- /bench -->\nbetween\n<!-- bench:other -->\nkept\n<!-- /bench -->\n")
    SCRIPT["main"]([str(bench), "--page", str(page)])
    assert page.read_text() == once


def test_what_could_not_be_measured_says_so():
    text_of = SCRIPT["filler"](REPORT, {})
    assert "| 8 nodes / 1 node | - |  |  | a \\| b |" in text_of("bench", "read")
    assert "failed: OSError: gone" in text_of("bench", "peers")
    assert "Warning of the run: busy" in text_of("bench", "environment")
    assert text_of("compare", "unknown") is None


def test_a_page_without_slots_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page = tmp_path / "page.md"
    page.write_text("nothing here\n")
    assert SCRIPT["main"](["--page", str(page)]) == 1
    assert "no slot" in capsys.readouterr().err


def test_the_page_has_a_slot_for_every_benchmark():
    names = re.search(r"^NAMES = \((.*)\)$", (ROOT / "benchmarks" / "run.py").read_text(), flags=re.MULTILINE)
    slots = re.findall(r"<!-- bench:(\w+) -->", (ROOT / "docs" / "performance.md").read_text())
    assert names
    assert sorted(slots) == sorted(["environment", *re.findall(r'"(\w+)"', names[1])])


@pytest.mark.parametrize("value, shown", [(None, "-"), (3.0, "3"), (0.5, "0.50"), (123.4, "123"), (-2.25, "-2.25")])
def test_numbers(value: float | None, shown: str):
    assert SCRIPT["number"](value) == shown
