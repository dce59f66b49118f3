"""Classic speculative decoding: a smaller model of the same vocabulary drafts, as a chain or as a tree.

Reference: Leviathan et al., 2023 (arXiv 2211.17192). Leaves out: drafts sampled from q.
"""

from __future__ import annotations

import dataclasses

from specdec.builders import BestFirst, Chain
from specdec.decoding import Policy, Strategy
from specdec.drafters import DraftModel
from specdec.model import Model
from specdec.verifiers import Verifier


def draft_model(
    draft: Model,
    budget: int = 5,
    *,
    tree: bool = False,
    children: int = 4,
    vocab_limit: int = 0,
    verifier: Verifier | None = None,
) -> Strategy:
    """Any loaded model as the drafter.

    Args:
      draft: the small model.
      budget: verified nodes per pass, the root included.
      tree: grow best-first; False follows the argmax.
      children: children per node of a tree.
      vocab_limit: ids the target knows, if fewer than the draft model proposes (0: no limit).
      verifier: None chooses by temperature.
    """
    model = draft.target
    if vocab_limit:
        model = dataclasses.replace(model, vocab_limit=min(vocab_limit, model.vocab_limit))
    builder = BestFirst(budget) if tree else Chain(budget)
    drafter = DraftModel(model, children if tree else 1)
    name = "draft_model_tree" if tree else "draft_model"
    return Strategy(name, Policy(drafter, builder, verifier=verifier), drafter_params=draft.params)
