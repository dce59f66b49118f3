"""The tie rule: whether two exact decodings may differ at a position because of rounding alone.

A wider pass adds in another order, so logits differ in their last bits and an argmax between two nearly equal ones
may flip. A first difference is a tie only if plain decoding's gap between its two best ids is below twice the
largest difference between a one-node and an N-node pass there, and below a bound of the number format. Both
passes are run anew from the committed prefix: a fault of the state cannot excuse itself.
Leaves out: what the outputs have after their first difference; they have different prefixes then.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from specdec.backends import using
from specdec.decoding.engine import Engine
from specdec.decoding.result import Result
from specdec.decoding.state import DecodeState
from specdec.noise import Purpose
from specdec.sampling import log_probs
from specdec.tree import Tree, chain, root_only

# Largest gap that rounding may close. 16-bit formats keep 8 or 11 bits of logits that reach some tens.
BOUNDS = {"float32": 1e-3, "float16": 3e-2, "bfloat16": 2.5e-1}


@dataclasses.dataclass(frozen=True)
class FirstDifference:
    """Where an output leaves plain decoding's.

    Args:
      prompt: label of the prompt.
      position: index of the first returned id that differs.
      gap: plain decoding's best score less its second best there (logits; with coupled sampling log p + noise).
        None where scores do not decide: a verifier that need not repeat ids (`is_exact`), or one output ends earlier.
      tie: whether rounding explains it.
      spread: largest difference between the one-node and the N-node pass's scores there.
    """

    prompt: int | str
    position: int
    gap: float | None
    tie: bool
    spread: float | None = None


def first_difference(left: Sequence[int], right: Sequence[int]) -> int | None:
    """Index of the first difference, the shorter length if one continues the other; None if equal.

    Example:
      >>> first_difference([1, 2, 3], [1, 4, 3])
      1
    """
    if list(left) == list(right):
        return None
    both = zip(left, right, strict=False)
    return next((at for at, (one, other) in enumerate(both) if one != other), min(len(left), len(right)))


def judge(prompt: int | str, plain: Engine, engine: Engine, expected: Result, came: Result) -> FirstDifference | None:
    """Compares an output with plain decoding's and applies the tie rule to the first difference.

    Args:
      prompt: label for the report.
      plain: plain decoding, same model and settings.
      engine: the strategy's.
      expected: plain decoding's result.
      came: the strategy's, same prompt and seed.

    Returns:
      None when the ids are equal.
    """
    at = first_difference(expected.ids, came.ids)
    if at is None:
        return None
    if at >= min(len(expected.ids), len(came.ids)) or not is_exact(engine, plain):
        return FirstDifference(prompt, at, None, False)
    with using(plain.model.target.backend):
        if at == 0:
            one, many = _prefill_scores(plain, expected), _prefill_scores(engine, came)
        else:
            start = _round_start(came, at)
            one = _chain_scores(plain, expected, at - 1, at, 1)
            many = _chain_scores(plain, expected, start, at, engine.strategy.budget)
    best = np.sort(one)[-2:]
    gap = float(best[1] - best[0])
    finite = np.isfinite(one) & np.isfinite(many)
    spread = float(np.abs(one - many)[finite].max())
    return FirstDifference(prompt, at, gap, is_tie(gap, spread, plain.model.target.backend.dtype), spread)


def is_exact(engine: Engine, plain: Engine) -> bool:
    """Whether a strategy has to return plain decoding's ids: same lossless verifier, scores decide alone.

    A verifier with noise of its own keeps the distribution, but need not repeat ids.
    """
    mine, reference = engine.plan.policy.walker(), plain.plan.policy.walker()
    return mine == reference and mine.shares_target_noise and not mine.lossy


def is_tie(gap: float, spread: float, dtype: str = "float32") -> bool:
    """The rule itself.

    Args:
      gap: plain decoding's best score less its second best.
      spread: largest difference between the one-node and the N-node pass's scores.
      dtype: number format, which sets the bound.

    Example:
      >>> is_tie(2e-6, 4e-6), is_tie(2e-6, 0.0), is_tie(0.5, 1.0)
      (True, False, False)
    """
    return gap < 2 * spread and gap <= BOUNDS[dtype]


def _round_start(result: Result, at: int) -> int:
    """Index of the id that was the root of the round which produced the id at index `at`."""
    root = 0
    for record in result.rounds:
        if root + record.committed >= at:
            break
        root += record.committed
    return root


def _chain_scores(engine: Engine, result: Result, root: int, at: int, nodes: int) -> Float[np.ndarray, "V"]:
    """Scores of the id at index `at`, from a pass over `nodes` nodes that begins at the returned id `root`."""
    cached = [*result.prompt_ids, *result.ids[:root]]
    drafts = list(result.ids[root + 1 : root + nodes])
    drafts += [result.ids[root]] * (nodes - 1 - len(drafts))
    state = engine.prefill([cached], 1, [result.seed])
    first = jnp.asarray([result.ids[root]], jnp.int32)
    tree = root_only(first)
    if nodes > 1:
        tree = chain(first, jnp.asarray([drafts], jnp.int32), jnp.asarray([nodes - 1], jnp.int32))
    logits = _verify(engine.plan, engine.params.target, state.target, tree)[0, at - 1 - root]
    return _scores(engine, state, logits, len(result.prompt_ids) + at)


def _prefill_scores(engine: Engine, result: Result) -> Float[np.ndarray, "V"]:
    """Scores of the first returned id; both strategies then read the same prompt in the same way."""
    state = engine.prefill([list(result.prompt_ids)], 1, [result.seed])
    logits = engine.plan.target.logits(engine.params.target, state.context.h0[:, None])[0, 0]
    return _scores(engine, state, logits, len(result.prompt_ids))


@jax.jit(static_argnames="plan")
def _verify(plan: Any, params: Any, state: Any, tree: Tree) -> Float[Array, "B N V"]:
    return plan.target.verify(params, state, tree).logits


def _scores(engine: Engine, state: DecodeState, logits: Float[Array, "V"], position: int) -> Float[np.ndarray, "V"]:
    """What the verifier takes the argmax of."""
    if engine.settings.greedy:
        return np.asarray(logits, np.float32)
    where = jnp.asarray([position], jnp.int32)
    noise = state.noise.gumbel(Purpose.TARGET, where, logits.shape[-1])[0]
    return np.asarray(log_probs(logits, engine.settings) + noise, np.float32)
