"""Prompt lookup: what followed the same last tokens earlier in the prompt or the output is likely to follow now.

Several earlier places are kept as real continuations; a node's children are the next tokens of those continuations
that agree with its whole path, so a branch is always text that occurred. References: Saxena, "Prompt Lookup
Decoding", 2023; Fu et al., "REST", 2023 (arXiv 2311.08252) for the trie. Leaves out: an external data store.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from specdec.backends import scatter_rows, top_k
from specdec.drafters.none import Stateless
from specdec.errors import SettingsError
from specdec.noise import Noise
from specdec.values import Candidates, Children, Context, Nodes, Readout

UNKNOWN = -1


class Continuations(flax.struct.PyTreeNode):
    """Earlier places that end like the committed text, and how far each tree slot agrees with them.

    Args:
      token: what followed, per place; -1 ends it.
      weight: how much a place counts; 0 marks an unused entry.
      length: longest n-gram that matched at the place.
      alive: places that agree with a slot's whole path.
    """

    token: Int[Array, "B M D"]
    weight: Float[Array, "B M"]
    length: Int[Array, "B M"]
    alive: Bool[Array, "B N M"]


@dataclasses.dataclass(frozen=True)
class PromptLookup(Stateless):
    """N-gram matches over committed ids.

    Args:
      max_ngram, min_ngram: longest and shortest suffix that may match.
      places: how many earlier places are kept (longest match first, then the most recent).
      depth: how many following tokens of a place are used.
      children: distinct next tokens per node, at most `places`.
    """

    max_ngram: int = 4
    min_ngram: int = 1
    places: int = 8
    depth: int = 15
    children: int = 4

    needs_candidates = False

    def __post_init__(self) -> None:
        if not 1 <= self.min_ngram <= self.max_ngram:
            raise SettingsError(f"expected 1 <= min_ngram <= max_ngram, got {self.min_ngram} and {self.max_ngram}.")
        for name in ("places", "depth", "children"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} must be at least 1, got {getattr(self, name)}.")
        object.__setattr__(self, "children", min(self.children, self.places))

    @property
    def selector(self) -> PromptLookup:
        """Itself."""
        return self

    def begin(
        self,
        params: Any,
        candidates: Candidates | None,
        drafter_state: Any,
        context: Context,
        readout: Readout,
        noise: Noise,
        slots: int,
    ) -> Continuations:
        find = jax.vmap(self._find, in_axes=(0, 0))
        token, weight, length = find(context.history, context.length)
        # A prompt may hold ids that the target never produces; a continuation ends before one.
        token = jnp.where(token < readout.vocab_limit, token, UNKNOWN)
        alive = jnp.zeros((*weight.shape[:1], slots, self.places), bool)
        return Continuations(token, weight, length, alive)

    def _find(self, history: Int[Array, "C"], last: Int[Array, ""]) -> tuple[Array, Array, Array]:
        """Best places of one row; `last` is the root's position."""
        position = jnp.arange(history.shape[0], dtype=jnp.int32)
        matched = jnp.zeros_like(position)
        still = position < last
        for back in range(self.max_ngram):
            still &= (position >= back) & (jnp.roll(history, back) == history[jnp.maximum(last - back, 0)])
            still &= last >= back
            matched += still.astype(jnp.int32)
        # Longest match first, then the most recent place; one integer orders both.
        rank = jnp.where(matched >= self.min_ngram, matched * history.shape[0] + position, -1)
        best, place = top_k(rank, self.places)
        length = jnp.where(best >= 0, matched[place], 0)
        # A place closer than `depth` to the end runs into itself: its text is continued periodically.
        period = jnp.maximum(last - place, 1)
        steps = jnp.arange(self.depth, dtype=jnp.int32)
        token = history[place[:, None] + 1 + steps[None, :] % period[:, None]]
        weight = jnp.where(length > 0, 4.0 ** length.astype(jnp.float32), 0.0)
        return token, weight, length

    def expand(self, params: Any, state: Continuations, nodes: Nodes) -> tuple[Children, Continuations]:
        """Children are the distinct next tokens of the places that agree with the node's path.

        Edge probability: share of the agreeing weight, times a confidence that grows with the longest match.
        """
        rows = jnp.arange(nodes.slot.shape[0])[:, None]
        inherited = state.alive[rows, jnp.maximum(nodes.parent, 0)]
        taken = jnp.swapaxes(state.token[rows, :, jnp.maximum(nodes.depth - 1, 0)], 1, 2)
        agrees = jnp.swapaxes(taken, 1, 2) == nodes.token[..., None]
        used = (state.weight > 0)[:, None]
        alive = jnp.where((nodes.depth == 0)[..., None], used, inherited & agrees) & nodes.valid[..., None]
        deeper = (nodes.depth < self.depth)[..., None]
        following = state.token[rows, :, jnp.minimum(nodes.depth, self.depth - 1)]
        share, token = _distinct(
            following, jnp.where(alive & deeper & (following != UNKNOWN), state.weight[:, None], 0.0), self.children
        )
        longest = jnp.where(alive, state.length[:, None], 0).max(-1, keepdims=True).astype(jnp.float32)
        logp = jnp.log(share) + jnp.log(longest / (longest + 0.5))
        state = state.replace(alive=scatter_rows(state.alive, nodes.slot, alive))
        return Children(token=token, logp=jnp.where(share > 0, logp, -jnp.inf)), state


def _distinct(
    token: Int[Array, "B R M"], weight: Float[Array, "B R M"], count: int
) -> tuple[Float[Array, "B R count"], Int[Array, "B R count"]]:
    """The `count` distinct tokens with the largest share of the weight, best first; share 0 pads."""
    same = token[..., :, None] == token[..., None, :]
    mass = jnp.where(same, weight[..., None, :], 0.0).sum(-1)
    earlier = jnp.tril(jnp.ones((token.shape[-1],) * 2, bool), -1)
    repeated = (same & jnp.expand_dims(earlier, (0, 1)) & (weight > 0)[..., None, :]).any(-1)
    mass = jnp.where(repeated | (weight <= 0), 0.0, mass)
    best, index = top_k(mass, count)
    share = best / jnp.maximum(weight.sum(-1, keepdims=True), 1e-30)
    return share, jnp.take_along_axis(token, index, axis=-1)
