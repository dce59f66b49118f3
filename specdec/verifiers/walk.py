"""The walk shared by every verifier that draws the target's own id and looks for it among the children.

Whatever the tree holds, what is emitted is the target's draw: this is exact for any tree that does not depend on
the draw's noise, and repeats plain decoding when the noise depends on the position alone.
Leaves out: how an id is drawn.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from specdec.tree import Tree
from specdec.values import Acceptance, Context

Draw = Callable[[Float[Array, "B V"], Int[Array, "B"]], tuple[Int[Array, "B"], Array]]


def walk_by_draws(logits: Float[Array, "B N V"], tree: Tree, context: Context, draw: Draw) -> Acceptance:
    """Follows the children that carry the drawn id; draws only at visited nodes.

    Args:
      logits: target logits per node.
      tree: verified tree.
      context: for positions and live rows.
      draw: `(logits [B, V], position [B]) -> (id [B], nan [B])`, position being that of the drawn id.
    """
    batch, nodes = tree.token.shape
    rows = jnp.arange(batch)

    def visit(carry):
        depth, current, walking, path, accepted, bonus, nan = carry
        token, bad = draw(logits[rows, current], context.length + depth + 1)
        child = (tree.parent == current[:, None]) & tree.valid & (tree.token == token[:, None])
        child &= jnp.arange(nodes)[None, :] > 0
        found = walking & child.any(1) & ~bad
        current = jnp.where(found, child.argmax(1).astype(jnp.int32), current)
        bonus = jnp.where(walking, token, bonus)
        nan |= walking & bad
        path = jax.lax.dynamic_update_slice(path, current[:, None], (jnp.int32(0), depth + 1))
        return depth + 1, current, found, path, accepted + found.astype(jnp.int32), bonus, nan

    zero = jnp.zeros((batch,), jnp.int32)
    start = (
        jnp.int32(0),
        zero,
        context.live,
        jnp.zeros((batch, nodes + 1), jnp.int32),
        zero,
        context.root,
        jnp.zeros((batch,), bool),
    )
    _, _, _, path, accepted, bonus, nan = jax.lax.while_loop(lambda carry: carry[2].any(), visit, start)
    return Acceptance(
        path=path[:, :nodes],
        accepted=accepted,
        bonus=bonus,
        committed=jnp.where(context.live, accepted + 1, 0),
        nan=nan,
    )
