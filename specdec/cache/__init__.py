"""Cache kinds: what a token mixer remembers, how it verifies without writing, and how it commits."""

from specdec.cache.full import FullAttention, FullState, Pending
from specdec.cache.kind import CacheKind, live_prefix

__all__ = ["CacheKind", "FullAttention", "FullState", "Pending", "live_prefix"]
