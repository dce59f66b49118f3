"""Verifiers: walk a tree with the target's logits and say what is kept."""

from specdec.verifiers.coupled import Coupled
from specdec.verifiers.greedy import Greedy
from specdec.verifiers.protocol import Verifier
from specdec.verifiers.target_only import TargetOnly

__all__ = ["Coupled", "Greedy", "TargetOnly", "Verifier"]
