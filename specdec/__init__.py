"""Composable speculative decoding in JAX: draft trees, verify them in one pass, keep the output unchanged.

    model = specdec.load("smollm2-135m")
    result = specdec.generate(model, "What is a tree?", strategy=specdec.strategies.prompt_lookup(budget=8))

Importing the package touches no device; names are resolved on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from specdec.decoding import Policy, Result, Strategy
    from specdec.decoding.engine import Engine
    from specdec.decoding.generate import generate
    from specdec.decoding.stream import Piece, stream
    from specdec.model import Model, load
    from specdec.sampling import Sampling, sample_with

_HOME = {
    "Engine": "specdec.decoding.engine",
    "Model": "specdec.model",
    "Piece": "specdec.decoding.stream",
    "Policy": "specdec.decoding",
    "Result": "specdec.decoding",
    "Sampling": "specdec.sampling",
    "Strategy": "specdec.decoding",
    "generate": "specdec.decoding.generate",
    "load": "specdec.model",
    "sample_with": "specdec.sampling",
    "stream": "specdec.decoding.stream",
}
_MODULES = (
    "backends",
    "builders",
    "cache",
    "drafters",
    "sampling",
    "selectors",
    "strategies",
    "targets",
    "verifiers",
)

__all__ = [
    "Engine",
    "Model",
    "Piece",
    "Policy",
    "Result",
    "Sampling",
    "Strategy",
    "generate",
    "load",
    "sample_with",
    "stream",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"specdec.{name}")
    raise AttributeError(f"module 'specdec' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
