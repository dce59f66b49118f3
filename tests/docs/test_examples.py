"""The example scripts and notebooks run, on the toy.

Leaves out: the demo, which has tests of its own.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import jax
import nbformat
import pytest
from nbclient import NotebookClient
from package_layout import ROOT

EXAMPLES = ROOT / "examples"


def notebooks() -> list[Path]:
    return sorted(EXAMPLES.glob("*.ipynb"))


def test_the_toy_is_a_model_like_any_other(toy_model):
    model = toy_model()
    assert model.decode(model.encode("round trip: é 🙂", chat=False)) == "round trip: é 🙂"
    assert model.tokenizer.has_template
    assert model.stop_ids == (model.tokenizer.size - 1,)


@pytest.mark.slow
def test_compare_strategies(toy_model, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.syspath_prepend(EXAMPLES)
    main = runpy.run_path(str(EXAMPLES / "compare_strategies.py"))["main"]
    results = main(["--model", "toy", "--tokens", "24", "--budget", "6"])
    plain = [result.ids for result in results["plain"]]
    assert len(results) == 3
    for name, rows in results.items():
        assert [row.ids for row in rows] == plain, name
    table = capsys.readouterr().out.splitlines()
    assert len(table) == 1 + len(results)
    assert all(" 2/2 " in line for line in table[1:])


@pytest.mark.slow
@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_notebook(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPECDEC_EXAMPLE_MODEL", "toy")
    monkeypatch.setenv("SPECDEC_EXAMPLE_TOKENS", "24")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    if jax.config.jax_compilation_cache_dir:  # shared with the other tests
        monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", jax.config.jax_compilation_cache_dir)
        monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(EXAMPLES)}}).execute()


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_stored_outputs_name_no_machine(path: Path):
    """Warnings with paths come along easily when a notebook is run and saved."""
    for cell in nbformat.read(path, as_version=4).cells:
        for output in cell.get("outputs", []):
            assert output.get("name") != "stderr", cell.source
            assert output.output_type != "error", cell.source
