"""Decoding: one round, two drivers, and what they return."""

from specdec.decoding.policy import Policy, Strategy
from specdec.decoding.result import FinishReason, Result, RoundRecord

__all__ = ["FinishReason", "Policy", "Result", "RoundRecord", "Strategy"]
