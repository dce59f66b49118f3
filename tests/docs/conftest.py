"""The toy of the examples, for pages and examples alike, compiled with few optimisations and short caches."""

from __future__ import annotations

import functools
import runpy
from collections.abc import Callable, Iterator

import jax
import pytest
from package_layout import ROOT

from specdec import Model
from specdec.decoding import engine


@functools.cache
def examples() -> dict:
    return runpy.run_path(str(ROOT / "examples" / "toy_model.py"))


@pytest.fixture
def toy_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Model]]:
    """`toy_model` of `examples/toy_model.py`, where compiling is cheap."""
    monkeypatch.setattr(engine, "SMALLEST_CAPACITY", 128)
    jax.config.update("jax_disable_most_optimizations", True)
    yield examples()["toy_model"]
    jax.config.update("jax_disable_most_optimizations", False)
