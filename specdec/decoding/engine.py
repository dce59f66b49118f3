"""Binds a model, a strategy and settings; checks them; turns prompts into a state and states into results.

A researcher who wants to step by hand works with this object; `generate` and `stream` are thin users of it.
Leaves out: the round itself (`step.py`).
"""

from __future__ import annotations

import dataclasses
import numbers
import secrets
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from specdec.decoding import loop
from specdec.decoding.compatibility import check
from specdec.decoding.policy import Strategy
from specdec.decoding.prefill import prefill
from specdec.decoding.state import DecodeState, Params, Plan
from specdec.decoding.step import Round
from specdec.errors import NumericalError, SettingsError
from specdec.model import Model
from specdec.sampling import Sampling

SMALLEST_CAPACITY = 512
STOP_SLOTS = 8


@dataclasses.dataclass(frozen=True, eq=False)
class Engine:
    """One model, one strategy, one set of sampling settings.

    Args:
      model: what decodes.
      strategy: how it speculates.
      settings: sampling settings.
      stop_ids: ids that end a row; None takes the model's.
      capacity: positions per row; None fits the prompt and the cap (a power of two, so that few shapes occur).

    Raises:
      CompatibilityError: the parts do not work together; raised here, before anything is traced.
    """

    model: Model
    strategy: Strategy
    settings: Sampling
    stop_ids: tuple[int, ...] | None = None
    capacity: int | None = None

    def __post_init__(self) -> None:
        check(self.strategy.policy.resolve(self.settings), self.model.target, self.settings)
        if self.capacity is not None and self.capacity < 2:
            raise SettingsError(f"capacity must be at least 2 (one prompt id and the root), got {self.capacity}.")

    @property
    def plan(self) -> Plan:
        """The static half: what is compiled once."""
        policy = self.strategy.policy.resolve(self.settings)
        target = dataclasses.replace(self.model.target, features=policy.drafter.features)
        return Plan(target, policy, (1,))

    @property
    def params(self) -> Params:
        """The weights of all parts."""
        strategy = self.strategy
        own = strategy.policy.selector is None
        return Params(
            self.model.params,
            strategy.drafter_params,
            strategy.drafter_params if own else strategy.selector_params,
        )

    def prefill(
        self, prompts: Sequence[Sequence[int]], max_new_tokens: int, seeds: Sequence[int] | None = None
    ) -> DecodeState:
        """Reads prompts (ids) and draws each row's first token.

        Args:
          prompts: ids per row.
          max_new_tokens: ids a row may return, at least 1.
          seeds: one per row; None draws fresh ones.

        Returns:
          A state that the caller owns: it stays usable after any number of generations from it.

        Raises:
          SettingsError: a prompt longer than the capacity, or a bad cap or seed.
        """
        if isinstance(max_new_tokens, bool) or not isinstance(max_new_tokens, int) or max_new_tokens < 1:
            raise SettingsError(f"max_new_tokens must be a whole number >= 1 here, got {max_new_tokens!r}.")
        longest = max(len(prompt) for prompt in prompts)
        capacity = self._capacity(longest, max_new_tokens)
        stops = self.model.stop_ids if self.stop_ids is None else self.stop_ids
        slots = max(STOP_SLOTS, _power_of_two(len(stops)))
        depth = max(self.plan.policy.builder.num_nodes, 64)
        state = prefill(
            self.plan,
            self.params,
            prompts,
            settings=self.settings,
            seeds=row_seeds(seeds, len(prompts)),
            stop_ids=np.asarray([*stops, *[-1] * (slots - len(stops))], np.int32),
            caps=np.full(len(prompts), max_new_tokens, np.int32),
            capacity=capacity,
            storage=max(_power_of_two(capacity), SMALLEST_CAPACITY) + depth,
            rounds=max(_power_of_two(max_new_tokens), SMALLEST_CAPACITY // 2),
            largest_chunk=self.model.target.backend.prefill_chunk,
        )
        return self._checked(state)

    def run(self, state: DecodeState, rounds: int | None = None) -> DecodeState:
        """Decodes until every row is done, or for `rounds` more rounds. The given state stays usable."""
        return self._checked(loop.run(self.plan, self.params, state, self._until(state, rounds)))

    def run_owned(self, state: DecodeState, rounds: int | None = None) -> DecodeState:
        """The same, reusing the buffers of a state that nobody else needs."""
        return self._checked(loop.run_owned(self.plan, self.params, state, self._until(state, rounds)))

    def step(self, state: DecodeState) -> tuple[DecodeState, Round]:
        """One round by hand, with its tree and what was accepted. The given state stays usable."""
        state, done = loop.step_once(self.plan, self.params, state)
        return self._checked(state), done

    def _until(self, state: DecodeState, rounds: int | None) -> jax.Array:
        limit = jnp.int32(state.records.accepted.shape[0])
        return limit if rounds is None else jnp.minimum(limit, state.round + jnp.int32(rounds))

    def _capacity(self, prompt: int, cap: int) -> int:
        limit = self.check_prompt(prompt)
        if self.capacity is not None:
            return limit
        return min(limit, max(_power_of_two(prompt + cap), SMALLEST_CAPACITY))

    def check_prompt(self, prompt: int) -> int:
        """Refuses a prompt (its length in ids) that leaves no room for an answer; returns the positions there are."""
        limit = self.model.target.max_positions
        if self.capacity is not None:
            limit = min(limit, self.capacity)
        if prompt >= limit:
            raise SettingsError(
                f"the prompt has {prompt} tokens but only {limit} positions are available and one is needed "
                "for the answer; shorten the prompt or raise `capacity` (up to the model's own limit of "
                f"{self.model.target.max_positions})."
            )
        return limit

    def _checked(self, state: DecodeState) -> DecodeState:
        nan = np.asarray(state.nan)
        if nan.any():
            row = int(nan.argmax())
            position = int(state.context.length[row])  # the round has moved past what it predicted
            raise NumericalError(
                f"the target's logits held a NaN (row {row}, predicting position {position}); "
                "check the weights, or use dtype='float32'."
            )
        return state


def row_seeds(seeds: Sequence[int] | int | None, batch: int) -> np.ndarray:
    """One uint32 seed per row: given ones, `seed + row` for a single number, or fresh entropy.

    Raises:
      SettingsError: a wrong count, or a seed outside 0..2**32-1.
    """
    if seeds is None:
        return np.asarray([secrets.randbits(32) for _ in range(batch)], np.uint32)
    if isinstance(seeds, (Sequence, np.ndarray)) and not isinstance(seeds, str):
        values = list(seeds)
    else:
        number = isinstance(seeds, numbers.Integral) and not isinstance(seeds, bool)
        values = [seeds + row if number else seeds for row in range(batch)]
    if len(values) != batch:
        raise SettingsError(f"{batch} prompts need {batch} seeds (or one number), got {len(values)}.")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not 0 <= value < 2**32:
            raise SettingsError(f"a seed must be a whole number in 0..2**32-1, got {value!r}.")
    return np.asarray(values, np.uint32)


def _power_of_two(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()
