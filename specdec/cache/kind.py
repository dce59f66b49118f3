"""The contract of a cache kind, and the choice of how much of a cache a pass reads.

A target's state is a tuple with one entry per layer, each made by that layer's kind, so kinds can be mixed.
Leaves out: the kinds themselves.
"""

from __future__ import annotations

from typing import Any, Protocol

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

SMALLEST_PREFIX = 256


class CacheKind(Protocol):
    """What a decoder layer needs of its memory. `verify` never writes state; `commit` never computes attention."""

    def init(self, batch: int, capacity: int) -> Any:
        """An empty state for `batch` rows of `capacity` positions."""
        ...

    def pending(self, batch: int, nodes: int) -> Any:
        """An empty buffer for `nodes` uncommitted tree slots."""
        ...

    def verify(
        self,
        state: Any,
        pending: Any,
        query: Float[Array, "B Q R E"],
        key: Float[Array, "B K R E"],
        value: Float[Array, "B K R E"],
        *,
        slots: Int[Array, "B R"] | None,
        mask: Bool[Array, "B R N"],
        length: Int[Array, "B"],
    ) -> tuple[Float[Array, "B Q R E"], Any]:
        """Attends from R new nodes; returns their output and the pending buffer with their entries."""
        ...

    def commit(
        self,
        state: Any,
        pending: Any,
        path: Int[Array, "B E"],
        length: Int[Array, "B"],
        count: Int[Array, "B"],
    ) -> Any:
        """Moves the first `count` slots of `path` to positions `length`.. of the state."""
        ...


def prefix_sizes(capacity: int) -> tuple[int, ...]:
    """Static sizes a pass can choose from: powers of two from 256, and the capacity itself.

    Example:
      >>> prefix_sizes(1000)
      (256, 512, 1000)
    """
    sizes = []
    size = SMALLEST_PREFIX
    while size < capacity:
        sizes.append(size)
        size *= 2
    return (*sizes, capacity)


def live_prefix(length: Int[Array, "B"], capacity: int) -> Int[Array, ""]:
    """Index into `prefix_sizes(capacity)` of the smallest one that covers every row's cached length."""
    sizes = jnp.asarray(prefix_sizes(capacity)[:-1], jnp.int32)
    return (length.max() > sizes).sum().astype(jnp.int32)
