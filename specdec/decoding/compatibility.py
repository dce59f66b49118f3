"""Which parts work together: checked before anything is traced, refused with a combination that works.

Leaves out: checkpoint fit, which loaders check.
"""

from __future__ import annotations

from typing import Any

from specdec.decoding.policy import Policy
from specdec.errors import CompatibilityError
from specdec.sampling import Sampling


def check(policy: Policy, target: Any, settings: Sampling) -> None:
    """Refuses a policy that could not run or would not be what it claims.

    Args:
      policy: a resolved policy (see `Policy.resolve`).
      target: the target it is to run on.
      settings: sampling settings of the generation.

    Raises:
      CompatibilityError: naming the two parts and what to use instead.
    """
    drafter, selector, builder, verifier = policy.drafter, policy.selector, policy.builder, policy.walker()
    if settings.greedy != verifier.greedy:
        have = "greedy decoding (temperature 0)" if settings.greedy else "sampling (temperature above 0)"
        good = "Greedy()" if settings.greedy else "Coupled() or TargetOnly()"
        raise CompatibilityError(f"{_name(verifier)} cannot verify {have}; use {good}, or verifier=None to choose it.")
    if builder.num_nodes < 1:
        raise CompatibilityError(
            f"{_name(builder)}: a budget of {builder.num_nodes} has no room for the root; use >= 1."
        )
    if selector is None:
        raise CompatibilityError(
            f"{_name(drafter)} brings no selector and none was given; use selector=Independent() with a drafter "
            "that returns candidates, or strategies.plain() for plain decoding."
        )
    if builder.num_nodes == 1:
        return
    if selector.needs_candidates and drafter.selector is not None:
        raise CompatibilityError(
            f"{_name(selector)} scores marginal candidates, but {_name(drafter)} returns none; "
            "use selector=None to take the drafter's own."
        )
    if not target.supports_trees and _branches(builder):
        raise CompatibilityError(
            f"{_name(target)} cannot verify trees; use builder=Chain(num_nodes={builder.num_nodes})."
        )
    if getattr(builder, "uses_target_noise", False) and not verifier.shares_target_noise:
        raise CompatibilityError(
            f"{_name(builder)} grows from the target's own noise, which biases {_name(verifier)}; use Coupled()."
        )
    if verifier.needs_q and not getattr(builder, "gives_q", False):
        raise CompatibilityError(f"{_name(verifier)} needs drafts sampled from a known q; use TargetOnly() instead.")
    missing = [layer for layer in drafter.features if not 0 <= layer < _layers(target)]
    if missing:
        raise CompatibilityError(
            f"{_name(drafter)} reads target layers {missing}, but {_name(target)} has layers 0..{_layers(target) - 1}; "
            "use a drafter trained for this target."
        )
    model = getattr(drafter, "model", None)
    if model is not None and model.vocab_limit > target.vocab_limit:
        raise CompatibilityError(
            f"the draft model proposes ids up to {model.vocab_limit - 1}, the target knows {target.vocab_limit}; "
            "use a draft model with the target's vocabulary (strategies.draft_model sets the limit)."
        )


def _name(part: Any) -> str:
    return type(part).__name__


def _branches(builder: Any) -> bool:
    return _name(builder) != "Chain"


def _layers(target: Any) -> int:
    return target.config.num_layers
