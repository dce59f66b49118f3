"""The Python of every page runs; what pages name exists; the glossary is complete.

By default the pages run on the random toy of `examples/`. The quickstart of the README also runs on the real model.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from docs.pages import blocks_of, run_page
from package_layout import ROOT

import specdec
from specdec.analysis import RoundSplit, Row
from specdec.decoding.result import Result, RoundRecord
from specdec.decoding.state import Fallback

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUNNABLE = [page for page in PAGES if blocks_of(page)]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.slow
@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_the_python_of_a_page_runs(page: Path, monkeypatch: pytest.MonkeyPatch, toy_model):
    monkeypatch.setattr(specdec, "load", lambda name: toy_model(layers=1), raising=False)
    for block, printed in run_page(page)[1]:
        if block.output is not None and block.model is None:
            assert printed == block.output, f"{name_of(page)}, line {block.line}"


@pytest.mark.model
@pytest.mark.slow
def test_the_quickstart_runs_on_the_real_model():
    _, blocks = run_page(ROOT / "README.md")
    shown = [(block, printed) for block, printed in blocks if block.output is not None]
    assert shown
    for block, printed in shown:
        assert without_rates(printed) == without_rates(block.output or ""), f"README.md, line {block.line}"


def without_rates(text: str) -> str:
    """Output with the one thing that may differ from run to run taken out."""
    return re.sub(r"[\d.]+ tok/s", "# tok/s", text)


def test_pages_with_python_are_found():
    assert {"README.md", "docs/tutorial.md", "docs/own_strategy.md", "docs/metrics.md"} <= {*map(name_of, RUNNABLE)}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_python_fence_is_run(page: Path):
    """A fence without the word "run" would rot unseen."""
    assert "```python\n" not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_and_paths_exist(page: Path):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#[^)]*)?\)", text):
        assert not target or (page.parent / target).exists(), target
    folders = r"specdec|strategies|backends|tests|examples|benchmarks|docs"
    for path in re.findall(rf"`((?:{folders})/[\w/.-]*\w\.\w+|(?:{folders})/[\w/.-]*/)`", text):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_anchors_exist(page: Path):
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        other = page.parent / target if target else page
        heads = re.findall(r"^#+ (.*)$", other.read_text(encoding="utf-8"), flags=re.MULTILINE)
        made = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}
        assert anchor in made, f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_named_tests_exist(page: Path):
    """`tests/file.py::test_name` is a claim that can be checked."""
    for path, test in re.findall(r"`?(tests/[\w/]+\.py)::(\w+)", page.read_text(encoding="utf-8")):
        assert re.search(rf"^\s*def {test}\(", (ROOT / path).read_text(), flags=re.MULTILINE), f"{path}::{test}"


def test_the_glossary_names_everything_that_is_stored():
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    words = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`([^`\n]+)`", text))))
    names = {field.name for kind in (Row, RoundSplit, RoundRecord) for field in dataclasses.fields(kind)}
    names |= {name for name, value in vars(Result).items() if isinstance(value, property)} - {"speculated"}
    names |= {reason.name.lower() for reason in Fallback} - {"none"}
    assert names <= words, sorted(names - words)
