"""Sampling settings: one normaliser and one filter order that every path uses, plain decoding included.

Order of the filters, as in transformers: temperature, top-k, top-p, min-p, each on what the previous one left.
Off: `top_k` None, 0 or -1; `top_p` None or 1; `min_p` None or 0. A temperature of exactly 0, or below
1e-5 (where the runner-up of any practical gap has vanished), is greedy.
Leaves out: penalties and user processors.
"""

from __future__ import annotations

import math
import numbers

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from specdec.backends import cumsum, sort_descending, top_k
from specdec.errors import SettingsError

GREEDY_BELOW = 1e-5
HEAD = 1024  # ids tried before the whole vocabulary is sorted


class Sampling(flax.struct.PyTreeNode):
    """Normalised settings; build them with `sample_with()`. Values are arrays, so changing one compiles nothing.

    Args:
      temperature: float32 scalar, > 0 unless greedy.
      top_k: int32 scalar; the vocabulary size or more means off.
      top_p: float32 scalar in (0, 1].
      min_p: float32 scalar in [0, 1).
      greedy: static; True makes every draw an argmax.
      sorts: static; whether top-k or top-p is on (they need the vocabulary in order).
    """

    temperature: Float[Array, ""]
    top_k: Int[Array, ""]
    top_p: Float[Array, ""]
    min_p: Float[Array, ""]
    greedy: bool = flax.struct.field(pytree_node=False)
    sorts: bool = flax.struct.field(pytree_node=False)


def _number(name: str, value: object, low: float, high: float, advice: str) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or math.isnan(float(value)):
        raise SettingsError(f"{name} must be a number, got {value!r}. {advice}")
    if not low <= float(value) <= high:
        raise SettingsError(f"{name} must lie in [{low:g}, {high:g}], got {value!r}. {advice}")
    return float(value)


def sample_with(
    temperature: float = 0.0,
    *,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
) -> Sampling:
    """Normalises sampling settings; the only way settings enter the library.

    Args:
      temperature: divides the logits; 0 (or below 1e-5) is greedy, whatever the filters say.
      top_k: keep the k best; None, 0 and -1 are off.
      top_p: keep the smallest best-first set whose mass reaches p (at least one id); None and 1 are off.
      min_p: keep ids with at least `min_p` times the best probability; None and 0 are off.

    Returns:
      Settings for `generate`, `stream` and `compare`.

    Raises:
      SettingsError: a value outside its range, naming it.

    Example:
      >>> sample_with(0.8, top_p=0.95).greedy
      False
    """
    heat = _number("temperature", temperature, 0.0, 1e4, "Use 0 for greedy decoding.")
    k = _number("top_k", -1 if top_k is None else top_k, -1, 2**31 - 1, "Use None, 0 or -1 to switch it off.")
    if k != int(k):
        raise SettingsError(f"top_k must be a whole number, got {top_k!r}. Use None, 0 or -1 to switch it off.")
    p = _number("top_p", 1.0 if top_p is None else top_p, 0.0, 1.0, "Use None or 1 to switch it off.")
    floor = _number("min_p", 0.0 if min_p is None else min_p, 0.0, 1.0, "Use None or 0 to switch it off.")
    greedy = heat < GREEDY_BELOW
    return Sampling(
        temperature=jnp.float32(1.0 if greedy else heat),
        top_k=jnp.int32(2**31 - 1 if k <= 0 else int(k)),
        top_p=jnp.float32(p),
        min_p=jnp.float32(floor),
        greedy=greedy,
        sorts=not greedy and (k > 0 or p < 1.0),
    )


def log_probs(logits: Float[Array, "*batch V"], settings: Sampling) -> Float[Array, "*batch V"]:
    """Log-probabilities that a draw under `settings` follows; removed ids are -inf.

    The maximum is subtracted before dividing, so no temperature overflows.

    Args:
      logits: raw logits, any float dtype.
      settings: non-greedy settings.

    Returns:
      float32, normalised over the last axis.
    """
    logits = logits.astype(jnp.float32)
    scaled = (logits - logits.max(-1, keepdims=True)) / settings.temperature
    # The best id survives every filter, so min-p needs no order: its bar is relative to the maximum, here 0.
    keep = scaled >= jnp.log(settings.min_p)
    if settings.sorts:
        keep &= _nucleus(scaled, settings)
    return jax.nn.log_softmax(jnp.where(keep, scaled, -jnp.inf), axis=-1)


def _nucleus(scaled: Float[Array, "*batch V"], settings: Sampling) -> Bool[Array, "*batch V"]:
    """Which ids survive top-k, then top-p. Of equal logits the lower id comes first.

    Sorting a vocabulary costs as much as a pass of a small model, so the best ids alone are tried first; only when
    they do not hold the whole nucleus is everything sorted. Both give the same answer.
    """
    size = scaled.shape[-1]
    few = min(HEAD, size)
    best, ids = top_k(scaled, few)
    total = jnp.exp(scaled).sum(-1, keepdims=True)
    unlimited = settings.top_k >= size
    enough = (settings.top_k <= few) | (unlimited & (jnp.exp(best).sum(-1) >= settings.top_p * total[..., 0]).all())

    def from_head() -> Array:
        kept = _best_first(best, jnp.where(unlimited, total, 0.0), settings)
        return jnp.put_along_axis(jnp.zeros(scaled.shape, bool), ids, kept, axis=-1, inplace=False)

    def from_all() -> Array:
        ranked, order = sort_descending(scaled)
        kept = _best_first(ranked, jnp.zeros_like(total), settings)
        return jnp.put_along_axis(kept, order, kept, axis=-1, inplace=False)

    return jax.lax.cond(enough, from_head, from_all)


def _best_first(ranked: Float[Array, "*batch R"], total: Float[Array, "*batch 1"], settings: Sampling) -> Array:
    """Top-k, then top-p, on ids in order. `total`: mass they are a part of; 0 where top-k leaves nothing outside."""
    rank = jnp.arange(ranked.shape[-1], dtype=jnp.int32)
    keep = jnp.broadcast_to(rank < settings.top_k, ranked.shape)
    weight = jnp.where(keep, jnp.exp(ranked), 0.0)
    mass = weight / jnp.maximum(total, weight.sum(-1, keepdims=True))
    before = cumsum(mass) - mass
    # float32 cumulative sums end a little above or below 1, so "off" must not depend on them.
    first = jnp.broadcast_to(rank == 0, ranked.shape)
    return keep & ((before < settings.top_p) | (settings.top_p >= 1.0) | first)
