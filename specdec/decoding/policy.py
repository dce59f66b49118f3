"""A policy is an arrangement of parts; a strategy is a policy with its weights.

Leaves out: which arrangements are allowed (`compatibility.py`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from specdec.builders import Builder
from specdec.drafters import Drafter
from specdec.sampling import Sampling
from specdec.selectors import Selector
from specdec.verifiers import Coupled, Greedy, Verifier


@dataclasses.dataclass(frozen=True)
class Policy:
    """The static, hashable half of a strategy.

    Args:
      drafter: who proposes.
      builder: how the tree grows.
      selector: who scores children; None takes the drafter's own.
      verifier: who decides; None means `Greedy` at temperature 0 and `Coupled` otherwise.
    """

    drafter: Drafter
    builder: Builder
    selector: Selector | None = None
    verifier: Verifier | None = None

    def chooser(self) -> Selector:
        """The selector of a resolved policy."""
        assert self.selector is not None, "resolve the policy first"
        return self.selector

    def walker(self) -> Verifier:
        """The verifier of a resolved policy."""
        assert self.verifier is not None, "resolve the policy first"
        return self.verifier

    def resolve(self, settings: Sampling) -> Policy:
        """The same policy with nothing left to defaults."""
        verifier = self.verifier or (Greedy() if settings.greedy else Coupled())
        return dataclasses.replace(self, selector=self.selector or self.drafter.selector, verifier=verifier)


@dataclasses.dataclass(frozen=True, eq=False)
class Strategy:
    """A named policy and the parameters of its parts.

    Args:
      name: as tables print it.
      policy: the parts.
      drafter_params, selector_params: their weights (any pytree; empty for parts without weights).
    """

    name: str
    policy: Policy
    drafter_params: Any = ()
    selector_params: Any = ()

    @property
    def budget(self) -> int:
        """Verified nodes per round, the root included."""
        return self.policy.builder.num_nodes
