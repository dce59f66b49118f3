"""The state of a generation: one pytree, everything derived is a property.

Leaves out: how it moves (`step.py`).
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import flax.struct
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from specdec.decoding.policy import Policy
from specdec.decoding.stop import Reason
from specdec.noise import Noise
from specdec.sampling import Sampling
from specdec.values import Context


class Fallback(enum.IntEnum):
    """Why a round verified the root alone."""

    NONE = 0
    NOTHING_PROPOSED = 1
    LAST_TOKEN = 2  # the cap leaves room for one token
    NEAR_CAPACITY = 3
    DRAFTER_LIMIT = 4  # past the positions the drafter was made for


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is fixed at compile time; hashable, the one static argument of every compiled function.

    Args:
      target: configured with the features that the drafter reads.
      policy: resolved parts.
      sizes: widths of a verification pass besides the full budget.
    """

    target: Any
    policy: Policy
    sizes: tuple[int, ...] = (1,)


class Params(flax.struct.PyTreeNode):
    """Weights of all parts."""

    target: Any
    drafter: Any
    selector: Any


class Records(flax.struct.PyTreeNode):
    """One entry per round and row, on the device; a row's rounds are those with `committed` > 0.

    Args:
      accepted: m.  drafted: valid nodes without the root.  deepest: depth of the deepest node.
      committed: m + 1.  fallback: a `Fallback`, why nothing was drafted.
    """

    accepted: Int[Array, "T B"]
    drafted: Int[Array, "T B"]
    deepest: Int[Array, "T B"]
    committed: Int[Array, "T B"]
    fallback: Int[Array, "T B"]


class DecodeState(flax.struct.PyTreeNode):
    """Between two rounds.

    Args:
      target, drafter: states of those parts.
      context: what is committed.
      noise, settings: randomness and sampling settings.
      stop_ids: -1 pads.
      prompt_length: ids of the prompt, per row.
      cap: ids a row may return.  capacity: positions a row may fill.
      reason: `Reason` per row.  nan: rows whose logits held a NaN.
      round: rounds done.  records: what they did.
    """

    target: Any
    drafter: Any
    context: Context
    noise: Noise
    settings: Sampling
    stop_ids: Int[Array, "S"]
    prompt_length: Int[Array, "B"]
    cap: Int[Array, "B"]
    capacity: Int[Array, ""]
    reason: Int[Array, "B"]
    nan: Bool[Array, "B"]
    round: Int[Array, ""]
    records: Records

    @property
    def returned(self) -> Int[Array, "B"]:
        """Ids produced so far, the prefill's included."""
        return self.context.length + 1 - self.prompt_length

    @property
    def running(self) -> Bool[Array, "B"]:
        """Rows that go on."""
        return (self.reason == Reason.RUNNING) & ~self.nan


def empty_records(rounds: int, batch: int) -> Records:
    """Room for `rounds` rounds."""
    zeros = jnp.zeros((rounds, batch), jnp.int32)
    return Records(zeros, zeros, zeros, zeros, zeros)
