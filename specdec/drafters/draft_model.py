"""Classic speculation: a smaller model of the same vocabulary drafts token by token, as a chain or as a tree.

The drafter is its own selector: expanding nodes runs the small model on them, their keys and values pending in a
buffer of tree slots. Reference: Leviathan et al., 2023 (arXiv 2211.17192), section 2; Chen et al., 2023 (arXiv
2302.01318). Leaves out: drafts sampled from q.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from specdec.backends import top_k
from specdec.noise import Noise
from specdec.targets.decoder import Decoder, DecoderState
from specdec.targets.params import TargetParams
from specdec.values import Candidates, Children, Context, Nodes, Outcome, PromptChunk, Readout


class Expansion(flax.struct.PyTreeNode):
    """One round of drafting: the model's committed state, and what it computed for tree slots so far."""

    state: DecoderState
    pending: Any
    expanded: Bool[Array, "B N"]


@dataclasses.dataclass(frozen=True)
class DraftModel:
    """Any target as a drafter.

    Invariant between rounds: its cache holds exactly what the target's cache holds (committed ids without the root).

    Args:
      model: the draft model.
      children: children per node; 1 is enough for a chain.
    """

    model: Decoder
    children: int = 1

    features = ()
    needs_candidates = False

    @property
    def selector(self) -> DraftModel:
        """Itself."""
        return self

    @property
    def position_limit(self) -> int:
        """The small model's own context limit."""
        return self.model.max_positions

    def init(self, params: TargetParams, batch: int, capacity: int) -> DecoderState:
        return self.model.init(batch, capacity)

    def prime(self, params: TargetParams, state: DecoderState, chunk: PromptChunk) -> DecoderState:
        state, _ = self.model.prefill(params, state, chunk.tokens, chunk.count, chunk.total)
        return state

    def propose(
        self, params: TargetParams, state: DecoderState, context: Context, readout: Readout, noise: Noise
    ) -> tuple[Candidates | None, DecoderState]:
        return None, state

    def begin(
        self,
        params: TargetParams,
        candidates: Candidates | None,
        drafter_state: DecoderState,
        context: Context,
        readout: Readout,
        noise: Noise,
        slots: int,
    ) -> Expansion:
        batch = context.root.shape[0]
        pending = self.model.pending(batch, slots)
        return Expansion(drafter_state, pending, jnp.zeros((batch, slots), bool))

    def expand(self, params: TargetParams, state: Expansion, nodes: Nodes) -> tuple[Children, Expansion]:
        positions = state.state.length[:, None] + nodes.depth
        hidden, _, pending = self.model.run(
            params, state.state, nodes.token, positions, nodes.ancestors, state.pending, nodes.slot
        )
        logits = self.model.logits(params, hidden)
        best, ids = top_k(logits, self.children)
        logp = best - jax.nn.logsumexp(logits, axis=-1, keepdims=True)
        expanded = state.expanded | (nodes.ancestors & nodes.valid[..., None]).any(1)
        return Children(token=ids, logp=logp), Expansion(state.state, pending, expanded)

    def observe(self, params: TargetParams, state: DecoderState, outcome: Outcome) -> DecoderState:
        """Commits the accepted path; feeds its last token first if the tree ended there unexpanded."""
        expansion: Expansion = outcome.expansion
        accepted = outcome.acceptance
        rows = jnp.arange(accepted.accepted.shape[0])
        leaf = accepted.path[rows, accepted.accepted]
        state = self.model.append(state, expansion.pending, accepted.path, accepted.committed)
        missing = outcome.context.live & ~expansion.expanded[rows, leaf]
        token = outcome.tree.token[rows, leaf]
        return jax.lax.cond(
            missing.any(), self._feed_last, lambda params, state, *_: state, params, state, token, missing
        )

    def _feed_last(
        self, params: TargetParams, state: DecoderState, token: Int[Array, "B"], missing: Bool[Array, "B"]
    ) -> DecoderState:
        """Recomputes the entry of the last committed position from its token."""
        step = missing.astype(jnp.int32)
        before = state.replace(length=state.length - step)
        state, _ = self.model.prefill(params, before, token[:, None], step, state.length)
        return state
