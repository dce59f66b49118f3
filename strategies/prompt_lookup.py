"""Prompt lookup: draft what followed the same n-gram earlier in the prompt or the output; costs no second model.

Reference: Saxena, "Prompt Lookup Decoding", 2023. Leaves out: a data store beyond the context.
"""

from __future__ import annotations

from specdec.builders import BestFirst, Chain
from specdec.decoding import Policy, Strategy
from specdec.drafters import PromptLookup
from specdec.verifiers import Verifier


def prompt_lookup(
    budget: int = 8,
    *,
    tree: bool = True,
    max_ngram: int = 4,
    min_ngram: int = 1,
    places: int = 8,
    verifier: Verifier | None = None,
) -> Strategy:
    """Continuations of earlier matches as a trie, or the best of them as a chain.

    Args:
      budget: verified nodes per pass, the root included.
      tree: keep several continuations; False follows the best one.
      max_ngram: longest match.
      min_ngram: shortest match.
      places: how many matches are kept.
      verifier: None chooses by temperature.
    """
    drafter = PromptLookup(max_ngram, min_ngram, places, depth=max(budget - 1, 1))
    builder = BestFirst(budget) if tree else Chain(budget)
    name = "prompt_lookup" if tree else "prompt_lookup_chain"
    return Strategy(name, Policy(drafter, builder, verifier=verifier))
