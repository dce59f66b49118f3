"""Builders: how a draft tree is grown from a selector's children."""

from specdec.builders.best_first import BestFirst
from specdec.builders.chain import Chain
from specdec.builders.protocol import Builder
from specdec.builders.root_only import RootOnly

__all__ = ["BestFirst", "Builder", "Chain", "RootOnly"]
