"""All randomness of a generation: drawn from (seed of the row, purpose, position) and nothing else.

A draw for position p is the same number in plain decoding, in any tree, in any batch and at any budget, which
is what makes coupled sampling repeat plain decoding. Leaves out: what the draws are used for.
"""

from __future__ import annotations

import enum

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt32


class Purpose(enum.IntEnum):
    """Independent streams of one row."""

    TARGET = 0  # Gumbel noise of the target's own draw (coupled verification shares it)
    WALK = 1  # uniforms of an uncoupled verifier
    DRAFT = 2  # a drafter's or builder's own randomness


class Noise(flax.struct.PyTreeNode):
    """Counter-based noise (threefry).

    Args:
      seed: one seed per row.
    """

    seed: UInt32[Array, "B"]

    def at(self, purpose: Purpose, row: Int[Array, ""] | int, position: Int[Array, ""] | int) -> Array:
        """The key of one draw: `row` picks the seed, `position` is that of the token being predicted."""
        key = jax.random.key(self.seed[row])
        return jax.random.fold_in(jax.random.fold_in(key, int(purpose)), position)

    def gumbel(self, purpose: Purpose, position: Int[Array, "B"], size: int) -> Float[Array, "B size"]:
        """Standard Gumbel noise for one position per row."""
        rows = jnp.arange(self.seed.shape[0])
        return jax.vmap(lambda row, at: jax.random.gumbel(self.at(purpose, row, at), (size,), jnp.float32))(
            rows, position
        )

    def uniform(self, purpose: Purpose, position: Int[Array, "B"]) -> Float[Array, "B"]:
        """One uniform in [0, 1) for one position per row."""
        rows = jnp.arange(self.seed.shape[0])
        return jax.vmap(lambda row, at: jax.random.uniform(self.at(purpose, row, at), (), jnp.float32))(rows, position)
