"""What a builder knows of whoever proposes children: one `expand` function and an opaque state.

Leaves out: the selectors themselves; drafters without marginals bring their own (`drafters/`).
"""

from __future__ import annotations

from typing import Any, Protocol

from specdec.noise import Noise
from specdec.values import Candidates, Children, Context, Nodes, Readout


class Expand(Protocol):
    """`expand(state, nodes) -> (children, state)`: all that a builder may ask."""

    def __call__(self, state: Any, nodes: Nodes) -> tuple[Children, Any]:
        """Children of the given nodes, and the state with what was computed for them."""
        ...


class Selector(Protocol):
    """A frozen, hashable configuration with pure methods."""

    @property
    def children(self) -> int:
        """Children proposed per node."""
        ...

    @property
    def needs_candidates(self) -> bool:
        """Whether it scores a drafter's marginal candidates."""
        ...

    def begin(
        self,
        params: Any,
        candidates: Candidates | None,
        drafter_state: Any,
        context: Context,
        readout: Readout,
        noise: Noise,
        slots: int,
    ) -> Any:
        """State of one round's expansion for a tree of `slots` nodes."""
        ...

    def expand(self, params: Any, state: Any, nodes: Nodes) -> tuple[Children, Any]:
        """Proposes `children` children of each node, best first."""
        ...
