"""What the decoding loop needs of a target; a new architecture implements this and nothing else.

Leaves out: loading weights (`loading.py`) and the architectures (`decoder.py`).
"""

from __future__ import annotations

from typing import Any, Protocol

from jaxtyping import Array, Float, Int

from specdec.backends import Backend
from specdec.tree import Tree
from specdec.values import Acceptance, PromptChunk, Readout, Verified


class TargetState(Protocol):
    """Everything a target remembers of the committed tokens except the root."""

    length: Int[Array, "B"]


class Target(Protocol):
    """A frozen, hashable configuration with pure methods; parameters and state are arguments."""

    @property
    def backend(self) -> Backend:
        """Number formats and the primitives to avoid."""
        ...

    @property
    def features(self) -> tuple[int, ...]:
        """Layers whose output rows are captured."""
        ...

    @property
    def supports_trees(self) -> bool:
        """Whether `verify` takes trees that branch."""
        ...

    @property
    def vocab_limit(self) -> int:
        """Ids at or above it are never produced."""
        ...

    @property
    def hidden_size(self) -> int:
        """Width of the residual stream (H)."""
        ...

    @property
    def max_positions(self) -> int:
        """Largest context the model was made for."""
        ...

    def init(self, batch: int, capacity: int) -> Any:
        """An empty state with room for `capacity` committed tokens per row."""
        ...

    def prefill(
        self,
        params: Any,
        state: Any,
        tokens: Int[Array, "B S"],
        count: Int[Array, "B"],
        total: Int[Array, "B"],
    ) -> tuple[Any, PromptChunk]:
        """Reads one right-padded chunk of the prompt and commits the first `count` ids of each row."""
        ...

    def logits(self, params: Any, hidden: Float[Array, "B N H"]) -> Float[Array, "B N V"]:
        """Next-token logits of final-norm rows."""
        ...

    def verify(self, params: Any, state: Any, tree: Tree, sizes: tuple[int, ...] = ()) -> Verified:
        """One pass over the nodes of a tree; the state is not touched. `sizes`: narrower passes it may use."""
        ...

    def commit(self, state: Any, pending: Any, acceptance: Acceptance) -> Any:
        """Appends the accepted path: `acceptance.committed` entries per row."""
        ...

    def readout(self, params: Any) -> Readout:
        """Embedding and head rows for drafters and selectors."""
        ...
