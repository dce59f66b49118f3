"""Drives a target by hand: prompt chunks, one-node steps, trees, commits; few shapes, all compiled.

Leaves out: the decoding loop.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from specdec import Model
from specdec.targets import DecoderState
from specdec.tree import Tree
from specdec.values import Acceptance, PromptChunk, Verified

CAPACITY = 96
CHUNK = 48

_prefill = jax.jit(lambda target, params, *rest: target.prefill(params, *rest), static_argnums=0)
_verify = jax.jit(lambda target, params, *rest: target.verify(params, *rest), static_argnums=0)
_logits = jax.jit(lambda target, params, hidden: target.logits(params, hidden), static_argnums=0)
_commit = jax.jit(lambda target, *rest: target.commit(*rest), static_argnums=0)


def start(model: Model) -> DecoderState:
    return model.target.init(1, CAPACITY)


def read(model: Model, state: DecoderState, ids: list[int], size: int = CHUNK) -> tuple[DecoderState, PromptChunk]:
    """One chunk of a prompt, padded on the right to `size` ids."""
    row = np.zeros((1, size), np.int32)
    row[0, : len(ids)] = ids
    count = jnp.asarray([len(ids)], jnp.int32)
    return _prefill(model.target, model.params, state, jnp.asarray(row), count, state.length + count)


def logits(model: Model, chunk: PromptChunk) -> np.ndarray:
    """`[S, V]` of the ids of a chunk, without its padding."""
    return np.asarray(_logits(model.target, model.params, chunk.hidden)[0, : int(chunk.count[0])])


def verify(model: Model, state: DecoderState, tree: Tree) -> Verified:
    return _verify(model.target, model.params, state, tree)


def tree_of(token: list[int], parent: list[int]) -> Tree:
    """A tree whose slots are all valid; one node is plain decoding."""
    depth: list[int] = []
    for up in parent:
        depth.append(0 if up < 0 else depth[up] + 1)
    row = functools.partial(np.asarray, dtype=np.int32)
    return Tree(
        token=jnp.asarray(row([token])),
        parent=jnp.asarray(row([parent])),
        depth=jnp.asarray(row([depth])),
        logp=jnp.zeros((1, len(token)), jnp.float32),
        valid=jnp.ones((1, len(token)), bool),
    )


def path_to(parent: list[int], slot: int) -> list[int]:
    """Slots from the root to `slot`."""
    path: list[int] = []
    while slot >= 0:
        path.insert(0, slot)
        slot = parent[slot]
    return path


def commit(model: Model, state: DecoderState, verified: Verified, path: list[int]) -> DecoderState:
    """Commits the slots of `path`, the root first."""
    count = jnp.asarray([len(path)], jnp.int32)
    acceptance = Acceptance(
        path=jnp.asarray(np.asarray([path], np.int32)),
        accepted=count - 1,
        bonus=jnp.zeros((1,), jnp.int32),
        committed=count,
        nan=jnp.zeros((1,), bool),
    )
    return _commit(model.target, state, verified.pending, acceptance)
