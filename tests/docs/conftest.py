"""The toy of the examples, for pages and examples alike."""

from __future__ import annotations

import runpy
from collections.abc import Callable

import pytest
from package_layout import ROOT

from specdec import Model


@pytest.fixture(scope="session")
def toy_model() -> Callable[..., Model]:
    """`toy_model` of `examples/toy_model.py`."""
    return runpy.run_path(str(ROOT / "examples" / "toy_model.py"))["toy_model"]
