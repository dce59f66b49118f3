"""One round, in the order of the paper: draft, build, verify, commit.

Both drivers call `step`; a user may call it, or its four stages, by hand.
Leaves out: loops, text, and everything that needs the host.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from specdec.backends import using
from specdec.decoding import stop
from specdec.decoding.state import DecodeState, Fallback, Params, Plan, Records
from specdec.tree import Tree
from specdec.values import Acceptance, Candidates, Outcome, Verified, path_tokens


class Round(flax.struct.PyTreeNode):
    """What one round did."""

    tree: Tree
    acceptance: Acceptance
    fallback: Int[Array, "B"]


def _traced(stage: Callable[..., Any]) -> Callable[..., Any]:
    """Traces a stage with the primitives of the plan's backend."""

    @functools.wraps(stage)
    def within(plan: Plan, *args: Any) -> Any:
        with using(plan.target.backend):
            return stage(plan, *args)

    return within


@_traced
def draft(plan: Plan, params: Params, state: DecodeState) -> tuple[Candidates | None, Any]:
    """The drafter's proposals."""
    readout = plan.target.readout(params.target)
    return plan.policy.drafter.propose(params.drafter, state.drafter, state.context, readout, state.noise)


@_traced
def build(
    plan: Plan, params: Params, state: DecodeState, candidates: Candidates | None, drafter_state: Any
) -> tuple[Tree, Any, Int[Array, "B"]]:
    """The tree, cut to what can still be committed; the selector's final state; why nothing was drafted."""
    selector, builder, context = plan.policy.chooser(), plan.policy.builder, state.context
    readout = plan.target.readout(params.target)
    expansion = selector.begin(
        params.selector, candidates, drafter_state, context, readout, state.noise, builder.num_nodes
    )
    expand = functools.partial(selector.expand, params.selector)
    tree, expansion = builder.build(expand, expansion, context, state.noise)
    tree = tree.prune(jnp.where(context.live, context.limit, 0))
    return tree, expansion, _fallback(plan, state, tree.drafted)


def _fallback(plan: Plan, state: DecodeState, drafted: Int[Array, "B"]) -> Int[Array, "B"]:
    own, cap, room = _limits(plan, state)
    reason = jnp.where(own <= 0, Fallback.DRAFTER_LIMIT, Fallback.NOTHING_PROPOSED)
    reason = jnp.where(room <= 0, Fallback.NEAR_CAPACITY, reason)
    reason = jnp.where(cap <= 0, Fallback.LAST_TOKEN, reason)
    return jnp.where(state.context.live & (drafted <= 0), reason, Fallback.NONE).astype(jnp.int32)


def _limits(plan: Plan, state: DecodeState) -> tuple[Array, Array, Array]:
    """Deepest useful depth by the drafter's own limit, by the cap, and by the room in the cache."""
    length = state.context.length
    room = state.capacity - 1 - length
    cap = state.cap - state.returned - 1
    limit = plan.policy.drafter.position_limit
    own = room if limit is None else jnp.int32(limit) - 1 - length
    return own, cap, room


def limit_depth(plan: Plan, state: DecodeState) -> DecodeState:
    """Brings the context's depth limit and live rows up to date."""
    own, cap, room = _limits(plan, state)
    limit = jnp.maximum(jnp.minimum(jnp.minimum(own, cap), room), 0)
    return state.replace(context=state.context.replace(limit=limit, live=state.running))


@_traced
def verify(plan: Plan, params: Params, state: DecodeState, tree: Tree) -> Verified:
    """One target pass; the state is not touched."""
    return plan.target.verify(params.target, state.target, tree, plan.sizes)


@_traced
def commit(
    plan: Plan,
    params: Params,
    state: DecodeState,
    tree: Tree,
    verified: Verified,
    drafter_state: Any,
    expansion: Any,
) -> tuple[DecodeState, Acceptance]:
    """Walks the tree, cuts at the first stop, and commits what is left."""
    context = state.context
    acceptance = plan.policy.walker().walk(verified.logits, tree, context, state.settings, state.noise)
    tokens = path_tokens(tree.token, acceptance)
    remaining = state.cap - state.returned
    acceptance, reason = stop.clip(acceptance, tokens, context, state.stop_ids, remaining, state.capacity)
    target = plan.target.commit(state.target, verified.pending, acceptance)
    outcome = Outcome(context, tree, verified, acceptance, expansion)
    drafter = plan.policy.drafter.observe(params.drafter, drafter_state, outcome)
    state = state.replace(
        target=target,
        drafter=drafter,
        context=context.advance(tokens, acceptance, verified.hidden),
        reason=jnp.where(context.live, reason, state.reason),
        nan=state.nan | acceptance.nan,
    )
    return state, acceptance


@_traced
def step(plan: Plan, params: Params, state: DecodeState) -> tuple[DecodeState, Round]:
    """One round for every live row; rows that are done keep everything."""
    state = limit_depth(plan, state)
    candidates, drafter_state = draft(plan, params, state)
    tree, expansion, fallback = build(plan, params, state, candidates, drafter_state)
    verified = verify(plan, params, state, tree)
    live = state.context.live
    state, acceptance = commit(plan, params, state, tree, verified, drafter_state, expansion)
    entry = Records(
        accepted=acceptance.accepted,
        drafted=jnp.where(live, tree.drafted, 0),
        deepest=jnp.where(live, tree.deepest, 0),
        committed=acceptance.committed,
        fallback=fallback,
    )
    records = jax.tree.map(
        lambda table, row: jax.lax.dynamic_update_index_in_dim(table, row, state.round, 0), state.records, entry
    )
    return state.replace(round=state.round + 1, records=records), Round(tree, acceptance, fallback)
