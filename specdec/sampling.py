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
from jaxtyping import Array, Float

from specdec.errors import SettingsError

GREEDY_BELOW = 1e-5


@flax.struct.dataclass
class Sampling:
    """Normalised settings; build them with `sample_with()`. Values are arrays, so changing one compiles nothing.

    Args:
      temperature: float32 scalar, > 0 unless greedy.
      top_k: int32 scalar; the vocabulary size or more means off.
      top_p: float32 scalar in (0, 1].
      min_p: float32 scalar in [0, 1).
      greedy: static; True makes every draw an argmax.
      filtered: static; whether any of top-k, top-p, min-p is on (they need a sort).
    """

    temperature: Float[Array, ""]
    top_k: Float[Array, ""]
    top_p: Float[Array, ""]
    min_p: Float[Array, ""]
    greedy: bool = flax.struct.field(pytree_node=False)
    filtered: bool = flax.struct.field(pytree_node=False)


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
        filtered=not greedy and (k > 0 or p < 1.0 or floor > 0.0),
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
    if settings.filtered:
        scaled = jnp.where(_kept(scaled, settings), scaled, -jnp.inf)
    return jax.nn.log_softmax(scaled, axis=-1)


def _kept(scaled: Float[Array, "*batch V"], settings: Sampling) -> Array:
    """Which ids survive top-k, then top-p, then min-p. Equal logits keep the lower id first."""
    order = jnp.argsort(-scaled, axis=-1, stable=True)
    best_first = jnp.take_along_axis(scaled, order, axis=-1)
    rank = jnp.arange(scaled.shape[-1], dtype=jnp.int32)
    keep = jnp.broadcast_to(rank < settings.top_k, best_first.shape)
    weight = jnp.where(keep, jnp.exp(best_first), 0.0)
    mass = weight / weight.sum(-1, keepdims=True)
    before = jnp.cumsum(mass, axis=-1) - mass
    # float32 cumulative sums end a little above or below 1, so "off" must not depend on them.
    keep &= (before < settings.top_p) | (settings.top_p >= 1.0) | (rank == 0)
    keep &= jnp.exp(best_first) >= settings.min_p
    inverse = jnp.argsort(order, axis=-1)
    return jnp.take_along_axis(keep, inverse, axis=-1)
