"""A drafter that proposes what a test tells it to: right, wrong, right for k, right on the second branch, ...

Output must be the same for every script. Leaves out: anything useful.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from specdec.drafters.none import Stateless
from specdec.noise import Noise, Purpose
from specdec.values import Candidates, Children, Context, Nodes, Readout


class Script(enum.Enum):
    """What a scripted drafter proposes."""

    RIGHT = "right"
    WRONG = "wrong"
    RIGHT_FOR_K = "right for k"
    SECOND_BRANCH = "second branch"
    RANDOM = "random"
    EVERY_OTHER_EMPTY = "every other empty"


class _Round(flax.struct.PyTreeNode):
    position: Int[Array, "B"]
    answer: Int[Array, "B D"]
    noise: Noise


@dataclasses.dataclass(frozen=True)
class Scripted(Stateless):
    """Follows a script against a known answer; the parameters are the answer by position, int32 `[B, C]`.

    Args:
      script: what to propose.
      vocab: ids are taken modulo this.
      k: for `RIGHT_FOR_K`: depth up to which the proposal is right.
      depth: deepest proposal.
    """

    script: Script
    vocab: int
    k: int = 2
    depth: int = 15

    children = 2
    needs_candidates = False

    @property
    def selector(self) -> Scripted:
        """Itself."""
        return self

    def begin(
        self,
        params: Int[Array, "B C"],
        candidates: Candidates | None,
        drafter_state: Any,
        context: Context,
        readout: Readout,
        noise: Noise,
        slots: int,
    ) -> _Round:
        steps = context.length[:, None] + 1 + jnp.arange(self.depth + 1, dtype=jnp.int32)[None, :]
        answer = jnp.take_along_axis(params, jnp.minimum(steps, params.shape[1] - 1), axis=1)
        return _Round(context.length, answer, noise)

    def expand(self, params: Any, state: _Round, nodes: Nodes) -> tuple[Children, _Round]:
        right = jnp.take_along_axis(state.answer, jnp.minimum(nodes.depth, self.depth), axis=1)
        wrong = (right + 1 + nodes.depth) % self.vocab
        wrong = jnp.where(wrong == right, (right + 1) % self.vocab, wrong)
        empty = nodes.depth >= self.depth
        first, second = right, wrong
        match self.script:
            case Script.RIGHT:
                pass
            case Script.WRONG:
                first, second = wrong, (wrong + 1) % self.vocab
                second = jnp.where(second == right, (wrong + 2) % self.vocab, second)
            case Script.RIGHT_FOR_K:
                first = jnp.where(nodes.depth < self.k, right, wrong)
                second = jnp.where(nodes.depth < self.k, wrong, (wrong + 1) % self.vocab)
                second = jnp.where(second == right, (wrong + 2) % self.vocab, second)
            case Script.SECOND_BRANCH:
                first, second = wrong, right
            case Script.RANDOM:
                first = self._random(state, nodes)
                second = (first + 1) % self.vocab
            case Script.EVERY_OTHER_EMPTY:
                empty |= (state.position % 2 == 0)[:, None]
        logp = jnp.broadcast_to(jnp.log(jnp.asarray([0.6, 0.4], jnp.float32)), (*first.shape, 2))
        logp = jnp.where(empty[..., None], -jnp.inf, logp)
        return Children(token=jnp.stack([first, second], -1).astype(jnp.int32), logp=logp), state

    def _random(self, state: _Round, nodes: Nodes) -> Int[Array, "B R"]:
        def draw(row, position, depth):
            key = state.noise.at(Purpose.DRAFT, row, position + depth)
            return jax.random.randint(key, (), 0, self.vocab, jnp.int32)

        rows = jnp.arange(nodes.depth.shape[0])
        return jax.vmap(jax.vmap(draw, in_axes=(None, None, 0)))(rows, state.position, nodes.depth)
