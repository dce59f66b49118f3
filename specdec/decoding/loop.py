"""The jitted driver: rounds until every row is done or a round number is reached.

`generate` asks for all rounds at once, `stream` for one at a time; both run this one compiled function.
Leaves out: text and timing.
"""

from __future__ import annotations

import functools

import jax
from jaxtyping import Array, Int

from specdec.decoding.state import DecodeState, Params, Plan
from specdec.decoding.step import Round, step


def _run(plan: Plan, params: Params, state: DecodeState, until: Int[Array, ""]) -> DecodeState:
    def unfinished(state: DecodeState) -> Array:
        return state.running.any() & (state.round < until) & ~state.nan.any()

    return jax.lax.while_loop(unfinished, lambda state: step(plan, params, state)[0], state)


run = functools.partial(jax.jit, static_argnames="plan")(_run)
"""Runs rounds up to number `until`; the caller's state stays usable."""

run_owned = functools.partial(jax.jit, static_argnames="plan", donate_argnames="state")(_run)
"""The same for a state that nobody else holds: its buffers are reused."""


@functools.partial(jax.jit, static_argnames="plan")
def step_once(plan: Plan, params: Params, state: DecodeState) -> tuple[DecodeState, Round]:
    """One round by hand: also returns the tree and what was accepted. The caller's state stays usable."""
    return step(plan, params, state)
