"""Reading a prompt: power-of-two chunks, then the first token, drawn like every other one.

Leaves out: text; prompts arrive as ids.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from specdec.backends import using
from specdec.decoding import stop
from specdec.decoding.state import DecodeState, Params, Plan, empty_records
from specdec.drafters import Drafter, NoDrafter, Stateless
from specdec.noise import Noise
from specdec.sampling import Sampling
from specdec.targets import Target
from specdec.tree import root_only
from specdec.values import Context, path_tokens
from specdec.verifiers import Verifier

SMALLEST_CHUNK = 32


def schedule(total: int, largest: int, room: int) -> list[tuple[int, int]]:
    """Splits a prompt into (start, size) chunks of few distinct sizes, so that few shapes are compiled.

    A chunk is the rest rounded up to a power of two, or down when more than a quarter would be padding. Padding
    never reaches past `room` positions.

    Example:
      >>> schedule(300, 512, 1024)
      [(0, 256), (256, 64)]
    """
    chunks, start = [], 0
    while start < total:
        rest = total - start
        size = max(1 << (rest - 1).bit_length(), SMALLEST_CHUNK)
        if size > 2 * SMALLEST_CHUNK and size - rest > size // 4:
            size //= 2
        size = min(size, largest)
        if start + size > room:
            size = 1 << (rest.bit_length() - 1)
        chunks.append((start, size))
        start += size
    return chunks


@functools.partial(jax.jit, static_argnames=("reader", "listener"), donate_argnames=("target", "drafter", "last"))
def _read_chunk(
    reader: Target,
    listener: Drafter,
    params: tuple[Any, Any],
    target: Any,
    drafter: Any,
    last: Float[Array, "B H"],
    tokens: Int[Array, "B S"],
    start: Int[Array, ""],
    total: Int[Array, "B"],
) -> tuple[Any, Any, Array]:
    """Target and drafter read one chunk; keeps the final-norm row of each row's last prompt token."""
    size = tokens.shape[1]
    count = jnp.clip(total - start, 0, size)
    with using(reader.backend):
        target, chunk = reader.prefill(params[0], target, tokens, count, total)
        drafter = listener.prime(params[1], drafter, chunk)
    index = total - 1 - start
    ends_here = (index >= 0) & (index < size)
    rows = jnp.arange(tokens.shape[0])
    row = chunk.hidden[rows, jnp.clip(index, 0, size - 1)]
    return target, drafter, jnp.where(ends_here[:, None], row, last)


@functools.partial(jax.jit, static_argnames=("target", "verifier"))
def _first_token(target: Target, verifier: Verifier, params: Any, state: DecodeState) -> DecodeState:
    """Draws the id after the prompt as the bonus of a tree that holds the last prompt id alone."""
    before = state.context
    logits = target.logits(params, before.h0[:, None])
    tree = root_only(before.root)
    with using(target.backend):
        acceptance = verifier.walk(logits, tree, before, state.settings, state.noise)
    tokens = path_tokens(tree.token, acceptance)
    acceptance, reason = stop.clip(acceptance, tokens, before, state.stop_ids, state.cap, state.capacity)
    with using(target.backend):
        context = before.advance(tokens, acceptance, before.h0[:, None])
    return state.replace(context=context, reason=reason, nan=state.nan | acceptance.nan)


def prefill(
    plan: Plan,
    params: Params,
    prompts: Sequence[Sequence[int]],
    *,
    settings: Sampling,
    seeds: np.ndarray,
    stop_ids: np.ndarray,
    caps: np.ndarray,
    capacity: int,
    storage: int,
    rounds: int,
    largest_chunk: int,
) -> DecodeState:
    """Reads the prompts and draws the first token of each row.

    Args:
      plan: what decodes.
      params: its weights.
      prompts: ids per row, at least one each.
      settings: sampling settings.
      seeds: uint32 `[B]`.
      stop_ids: int32 `[S]`, padded with -1.
      caps: int32 `[B]`, ids each row may return (at least 1).
      capacity: positions a row may fill.
      storage: positions the caches have room for; at least `capacity` plus the longest path of a tree.
      rounds: room for records.
      largest_chunk: most prompt tokens per pass.
    """
    batch = len(prompts)
    total = np.asarray([len(prompt) for prompt in prompts], np.int32)
    chunks = schedule(int(total.max()), largest_chunk, storage)
    tokens = np.zeros((batch, sum(size for _, size in chunks)), np.int32)
    for row, prompt in enumerate(prompts):
        tokens[row, : len(prompt)] = prompt
        tokens[row, len(prompt) :] = prompt[-1]  # padding brings no id that the prompt does not hold
    target = plan.target.init(batch, storage)
    drafter = plan.policy.drafter.init(params.drafter, batch, storage)
    # Drafters that keep nothing share one compiled prefill with plain decoding.
    listener = NoDrafter() if isinstance(plan.policy.drafter, Stateless) else plan.policy.drafter
    weights = (params.target, () if isinstance(listener, NoDrafter) else params.drafter)
    last = jnp.zeros((batch, plan.target.hidden_size), plan.target.backend.dtype)
    for start, size in chunks:
        part = jnp.asarray(tokens[:, start : start + size])
        target, drafter, last = _read_chunk(
            plan.target, listener, weights, target, drafter, last, part, jnp.int32(start), jnp.asarray(total)
        )
    history = np.zeros((batch, storage), np.int32)
    width = min(storage, tokens.shape[1])
    history[:, :width] = tokens[:, :width]
    context = Context(
        root=jnp.asarray(tokens[np.arange(batch), total - 1]),
        length=jnp.asarray(total - 1),
        h0=last,
        history=jnp.asarray(history),
        limit=jnp.zeros((batch,), jnp.int32),
        live=jnp.ones((batch,), bool),
    )
    state = DecodeState(
        target=target,
        drafter=drafter,
        context=context,
        noise=Noise(jnp.asarray(seeds, jnp.uint32)),
        settings=settings,
        stop_ids=jnp.asarray(stop_ids, jnp.int32),
        prompt_length=jnp.asarray(total),
        cap=jnp.asarray(caps, jnp.int32),
        capacity=jnp.int32(capacity),
        reason=jnp.zeros((batch,), jnp.int32),
        nan=jnp.zeros((batch,), bool),
        round=jnp.int32(0),
        records=empty_records(rounds, batch),
    )
    return _first_token(plan.target, plan.policy.walker(), params.target, state)
