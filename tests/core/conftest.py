"""Cheap compilation for this folder.

Short caches: the toys need 128 positions. With the library's default a pass chooses between three attention prefixes;
`test_contract_03_state.py` covers that choice. Few optimisations: they double the time to compile a toy. Tests that
look at compiled code, or compare rounding, take the `optimised` fixture.
"""

import jax
import pytest

from specdec.decoding import engine


@pytest.fixture(autouse=True)
def short_caches(monkeypatch):
    monkeypatch.setattr(engine, "SMALLEST_CAPACITY", 128)


@pytest.fixture(autouse=True)
def quick_compilation():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def optimised(quick_compilation):
    jax.config.update("jax_disable_most_optimizations", False)
