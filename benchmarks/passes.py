"""A target pass by itself, several in a row inside one compiled loop, as decoding runs them.

Leaves out: what surrounds a pass in a round.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from specdec import Engine
from specdec.backends import using
from specdec.decoding.state import DecodeState
from specdec.tree import Tree, chain
from specdec.values import Verified

PASSES = 4


@functools.partial(jax.jit, static_argnames="target")
def _passes(target: Any, params: Any, state: Any, tree: Tree, count: jax.Array) -> Verified:
    with using(target.backend):
        verify = functools.partial(target.verify, params, state)

        def another(_: jax.Array, seen: Verified) -> Verified:
            # The next tree waits for this pass's logits, so that no pass can be left out.
            token = tree.token + (seen.logits[:, :1, 0] > 1e30).astype(jnp.int32)
            return verify(tree.replace(token=token))

        blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(verify, tree))
        return jax.lax.fori_loop(0, count, another, blank)


def passes(engine: Engine, state: DecodeState, nodes: int, count: int = PASSES) -> Callable[[], Verified]:
    """A call that runs `count` passes over `nodes` nodes each, at the state's live length.

    The nodes are a chain; the shape of a tree does not change the work.
    """
    drafts = jnp.zeros((1, nodes - 1), jnp.int32) + state.context.root[:, None]
    tree = chain(state.context.root, drafts, jnp.full((1,), nodes - 1, jnp.int32))
    return functools.partial(_passes, engine.plan.target, engine.params.target, state.target, tree, jnp.int32(count))
