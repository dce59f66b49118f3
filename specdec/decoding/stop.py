"""Where a round's tokens end: the earliest of stop id and cap, cut before anything is committed.

The last kept id becomes the root and stays uncached, so nothing is ever rolled back.
Leaves out: stop strings, which need text (`text.py`).
"""

from __future__ import annotations

import enum

import jax.numpy as jnp
from jaxtyping import Array, Int

from specdec.values import Acceptance, Context


class Reason(enum.IntEnum):
    """Why a row ended."""

    RUNNING = 0
    STOP = 1
    LENGTH = 2  # max_new_tokens
    CAPACITY = 3  # no room for another token: the context limit


def clip(
    acceptance: Acceptance,
    tokens: Int[Array, "B E"],
    context: Context,
    stop_ids: Int[Array, "S"],
    remaining: Int[Array, "B"],
    capacity: Int[Array, ""],
) -> tuple[Acceptance, Int[Array, "B"]]:
    """Cuts an acceptance at the first stop id and at the cap; a stop wins a tie.

    Args:
      acceptance: the verifier's verdict.
      tokens: ids for positions L+1.., see `path_tokens`.
      context: before the round.
      stop_ids: ids that end a row; -1 pads.
      remaining: ids the row may still return.
      capacity: positions the row may fill.

    Returns:
      The cut acceptance (its bonus is the last kept id) and a `Reason` per row.
    """
    offset = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None, :]
    kept = offset <= acceptance.accepted[:, None]
    stops = kept & (tokens[..., None] == stop_ids[None, None, :]).any(-1)
    first_stop = jnp.where(stops, offset, tokens.shape[1]).min(1)
    count = jnp.minimum(jnp.minimum(acceptance.accepted + 1, remaining), first_stop + 1)
    rows = jnp.arange(tokens.shape[0])
    last = jnp.maximum(count - 1, 0)
    reason = jnp.where(
        stops[rows, last],
        Reason.STOP,
        jnp.where(
            count >= remaining,
            Reason.LENGTH,
            jnp.where(context.length + count >= capacity, Reason.CAPACITY, Reason.RUNNING),
        ),
    ).astype(jnp.int32)
    cut = acceptance.replace(
        accepted=jnp.where(context.live, last, 0),
        bonus=tokens[rows, last],
        committed=jnp.where(context.live, count, 0),
        # What the walk met behind the cut is nobody's: plain decoding would not have looked.
        nan=acceptance.nan & (count > acceptance.accepted),
    )
    return cut, jnp.where(context.live, reason, Reason.RUNNING).astype(jnp.int32)
