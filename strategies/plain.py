"""Plain decoding: one target pass per token, the reference for everything else.

Leaves out: drafting.
"""

from __future__ import annotations

from specdec.builders import RootOnly
from specdec.decoding import Policy, Strategy
from specdec.drafters import NoDrafter
from specdec.verifiers import Verifier


def plain(*, verifier: Verifier | None = None) -> Strategy:
    """No drafter, a tree of one node.

    Args:
      verifier: None chooses by temperature.
    """
    return Strategy("plain", Policy(NoDrafter(), RootOnly(), verifier=verifier))
