"""Selectors: given tree nodes, which children with which log-probability."""

from specdec.selectors.independent import Independent
from specdec.selectors.protocol import Expand, Selector

__all__ = ["Expand", "Independent", "Selector"]
