"""Toy targets, drafters and prompts that every test of this folder shares, so that compiled functions are shared too.

`decoder` builds the real architecture, two layers with random weights. `Table` is a target without arithmetic:
its logits are looked up by the last two ids, so its distribution is known exactly and it compiles in no time.
`ByRow` lets every row of a batch follow a script of its own. Leaves out: oracles (`oracles.py`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from specdec import strategies
from specdec.backends import Backend
from specdec.builders import BestFirst, Chain
from specdec.decoding import Policy, Strategy
from specdec.decoding.collect import collect
from specdec.decoding.engine import Engine
from specdec.decoding.result import Result, Timing
from specdec.decoding.state import DecodeState
from specdec.drafters import Script, Scripted, Stateless
from specdec.model import Model
from specdec.sampling import Sampling, sample_with
from specdec.targets import Decoder, TargetParams
from specdec.targets.config import Family, TargetConfig
from specdec.targets.params import LayerParams
from specdec.values import Acceptance, Children, PromptChunk, Readout, Verified
from specdec.verifiers import Coupled, Greedy, TargetOnly

CPU = Backend(name="cpu", platform="cpu")
VOCAB = 64

# Eight rows: one id, a repeating text for prompt lookup, the first and the last id, different lengths.
PROMPTS = (
    (5,),
    (1, 1, 1),
    (7, 3, 9, 7, 3, 9, 7, 3),
    (0, VOCAB - 1, 0, VOCAB - 1),
    (11, 12, 13, 14, 15, 16, 17, 11, 12, 13),
    tuple(int(i) for i in np.random.default_rng(1).integers(0, VOCAB, 40)),
    (2, 4, 6, 8, 10, 2, 4, 6, 9, 2, 4),
    tuple(int(i) for i in np.random.default_rng(2).integers(0, 4, 33)),
)
CAP = 32


def config(**changes: Any) -> TargetConfig:
    """Grouped heads whose size is not width / heads."""
    values: dict[str, Any] = {
        "family": Family.LLAMA,
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "num_layers": 2,
        "num_heads": 4,
        "num_kv_heads": 2,
        "head_dim": 12,
        "intermediate_size": 48,
        "norm_eps": 1e-5,
        "max_positions": 2048,
        **changes,
    }
    return TargetConfig(**values)


def random_params(config: TargetConfig, seed: int) -> TargetParams:
    """Weights of the size that keeps activations near one and the logits' gaps wide."""
    draw = np.random.default_rng(seed)

    def matrix(rows: int, columns: int, scale: float = 1.0) -> jax.Array:
        return jnp.asarray(draw.standard_normal((rows, columns)) * scale / np.sqrt(columns), jnp.float32)

    def around_one(size: int) -> jax.Array:
        return jnp.asarray(1 + 0.2 * draw.standard_normal(size), jnp.float32)

    width, inner = config.hidden_size, config.intermediate_size
    heads = config.num_heads * config.head_dim
    rows = (config.num_heads + 2 * config.num_kv_heads) * config.head_dim
    layers = tuple(
        LayerParams(
            attn_norm=around_one(width),
            qkv=matrix(rows, width, 1.5),
            out=matrix(width, heads, 2.0),
            mlp_norm=around_one(width),
            gate_up=matrix(2 * inner, width, 1.5),
            down=matrix(width, inner, 2.0),
        )
        for _ in range(config.num_layers)
    )
    embed = matrix(config.vocab_size, width, 5.0)
    return TargetParams(embed, layers, around_one(width), matrix(config.vocab_size, width, 4.0))


@functools.cache
def decoder(seed: int = 0, **changes: Any) -> Model:
    """A random two-layer model without a tokenizer."""
    settings = config(**changes)
    return Model(f"toy {seed}", Decoder(settings), random_params(settings, seed))


@functools.cache
def small_drafter(seed: int = 1) -> Model:
    """One narrow layer of the same vocabulary: drafts that are mostly wrong."""
    return decoder(seed, num_layers=1, hidden_size=16, num_heads=2, num_kv_heads=1, head_dim=8)


class TableState(flax.struct.PyTreeNode):
    """Committed ids without the root: what a real target's cache stands for."""

    ids: jax.Array
    length: jax.Array


@dataclasses.dataclass(frozen=True)
class Table:
    """A target whose logits are `params[previous id, id]`; before the first id stands id 0."""

    config: TargetConfig
    backend: Backend = CPU
    features: tuple[int, ...] = ()
    vocab_limit: int = 0

    supports_trees = True
    hidden_size = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "vocab_limit", self.vocab_limit or self.config.vocab_size)

    @property
    def max_positions(self) -> int:
        return self.config.max_positions

    def init(self, batch: int, capacity: int) -> TableState:
        return TableState(jnp.zeros((batch, capacity), jnp.int32), jnp.zeros((batch,), jnp.int32))

    def prefill(self, params, state, tokens, count, total):
        before = jnp.concatenate([self._last(state)[:, None], tokens[:, :-1]], axis=1)
        hidden = jnp.stack([before, tokens], -1).astype(jnp.float32)
        chunk = PromptChunk(tokens, state.length, count, total, hidden, None)
        return self._append(state, tokens, count), chunk

    def logits(self, params, hidden):
        pair = hidden.astype(jnp.int32)
        logits = params[pair[..., 0], pair[..., 1]]
        known = jnp.arange(logits.shape[-1]) < self.vocab_limit
        return jnp.where(jnp.broadcast_to(known, logits.shape), logits, -jnp.inf)

    def verify(self, params, state, tree, sizes=()):
        parents = jnp.take_along_axis(tree.token, jnp.maximum(tree.parent, 0), axis=1)
        before = jnp.where(tree.parent < 0, self._last(state)[:, None], parents)
        hidden = jnp.stack([before, tree.token], -1).astype(jnp.float32)
        return Verified(self.logits(params, hidden), hidden, None, tree.token)

    def commit(self, state, pending, acceptance: Acceptance):
        ids = jnp.take_along_axis(pending, acceptance.path, axis=1, mode="clip")
        return self._append(state, ids, acceptance.committed)

    def readout(self, params) -> Readout:
        rows = jnp.zeros((self.config.vocab_size, 2), jnp.float32)
        return Readout(embedding=rows, head=rows, vocab_limit=self.vocab_limit)

    def _last(self, state: TableState) -> jax.Array:
        at = jnp.maximum(state.length - 1, 0)[:, None]
        last = jnp.take_along_axis(state.ids, at, axis=1)[:, 0]
        return jnp.where(state.length > 0, last, 0)

    def _append(self, state: TableState, ids, count) -> TableState:
        at = state.length[:, None] + jnp.arange(ids.shape[1], dtype=jnp.int32)[None, :]
        inside = jnp.arange(ids.shape[1])[None, :] < count[:, None]
        at = jnp.where(inside, at, state.ids.shape[1])
        rows = jnp.arange(ids.shape[0])[:, None]
        return TableState(state.ids.at[rows, at].set(ids, mode="drop"), state.length + count)


def table(logits: np.ndarray, *, vocab_limit: int = 0, stop_ids: tuple[int, ...] = (), **changes: Any) -> Model:
    """A model from logits `[V, V, V]` (previous id, id, next id), `[V, V]` (id, next id) or `[V]` (context-free)."""
    size = logits.shape[-1]
    full = jnp.asarray(np.broadcast_to(logits, (size, size, size)), jnp.float32)
    target = Table(config(vocab_size=size, **changes), vocab_limit=vocab_limit)
    return Model("table", target, full, stop_ids=stop_ids)  # type: ignore[arg-type]


FAVOURITES = (0, 1, 2, 3, 7, 9, VOCAB - 2, VOCAB - 1)


@functools.cache
def random_table() -> Model:
    """A table that mostly says eight favourite ids, so that its text repeats and prompt lookup has matches."""
    logits = np.random.default_rng(0).standard_normal((VOCAB, VOCAB, VOCAB)) * 2
    logits[..., FAVOURITES] += 5
    return table(logits)


@dataclasses.dataclass(frozen=True)
class ByRow(Stateless):
    """Every row follows a script of its own (`params["script"]`, `params["k"]`): one compilation for all of them.

    Each script is the library's own `Scripted`.
    """

    vocab: int = VOCAB
    depth: int = 15

    children = 2
    needs_candidates = False

    @property
    def selector(self) -> ByRow:
        return self

    def begin(self, params, candidates, drafter_state, context, readout, noise, slots):
        part = Scripted(Script.RIGHT, self.vocab, depth=self.depth)
        return part.begin(params["answer"], candidates, drafter_state, context, readout, noise, slots)

    def expand(self, params, state, nodes):
        parts = [Scripted(script, self.vocab, k=params["k"][:, None], depth=self.depth) for script in Script]
        proposals = [part.expand(params["answer"], state, nodes)[0] for part in parts]
        token = jnp.stack([one.token for one in proposals])
        logp = jnp.stack([one.logp for one in proposals])
        rows = jnp.arange(token.shape[1])
        return Children(token=token[params["script"], rows], logp=logp[params["script"], rows]), state


@dataclasses.dataclass(frozen=True)
class Each:
    """Row i is judged by the verifier number `seed % 3`: one compilation for all verifiers."""

    verifiers: tuple[Any, ...] = (Greedy(), Coupled(), TargetOnly())

    greedy = False
    lossy = False
    shares_target_noise = False
    needs_q = False

    def walk(self, logits, tree, context, settings, noise) -> Acceptance:
        verdicts = [verifier.walk(logits, tree, context, settings, noise) for verifier in self.verifiers]
        which = (noise.seed % len(self.verifiers)).astype(jnp.int32)
        rows = jnp.arange(which.shape[0])
        return jax.tree.map(lambda *leaves: jnp.stack(leaves)[which, rows], *verdicts)


# What the rows of a scripted batch do by default, in turn: a script and the k of "right for k".
SCRIPTS = (
    (Script.RIGHT, 0),
    (Script.WRONG, 0),
    (Script.RIGHT_FOR_K, 1),
    (Script.RIGHT_FOR_K, 2),
    (Script.RIGHT_FOR_K, 4),
    (Script.SECOND_BRANCH, 0),
    (Script.RANDOM, 0),
    (Script.EVERY_OTHER_EMPTY, 0),
)


def scripted(
    answers: np.ndarray,
    budget: int,
    *,
    tree: bool = False,
    rows: Sequence[tuple[Script, int]] | None = None,
    vocab: int = VOCAB,
    depth: int = 15,
    verifier: Any = None,
) -> Strategy:
    """Scripted drafts for every row.

    Args:
      answers: the ids that are right, by position, `[B, C]`.
      budget: nodes.
      tree: best-first over two children instead of a chain.
      rows: script and k of every row; None goes through `SCRIPTS`, three rows each.
      vocab, depth: of the scripts.
      verifier: None chooses by temperature.
    """
    batch = answers.shape[0]
    scripts = [SCRIPTS[row // 3 % len(SCRIPTS)] for row in range(batch)] if rows is None else rows
    order = list(Script)
    params = {
        "answer": jnp.asarray(answers, jnp.int32),
        "script": jnp.asarray([order.index(script) for script, _ in scripts], jnp.int32),
        "k": jnp.asarray([k for _, k in scripts], jnp.int32),
    }
    builder = BestFirst(budget) if tree else Chain(budget)
    name = "scripted_tree" if tree else "scripted"
    return Strategy(name, Policy(ByRow(vocab, depth), builder, verifier=verifier), drafter_params=params)


def answers(results: list[Result], width: int = 512) -> np.ndarray:
    """Committed ids by position, as a scripted drafter wants them; the last id is repeated to the end."""
    rows = [[*result.prompt_ids, *result.ids] for result in results]
    return np.asarray([row + [row[-1]] * (width - len(row)) for row in rows], np.int32)


# Every registered strategy, in every form it has, and scripts: `(budget, answers, verifier) -> Strategy`.
FORMS: dict[str, Callable[..., Strategy]] = {
    "prompt_lookup": lambda budget, answer, verifier=None: strategies.prompt_lookup(budget, verifier=verifier),
    "prompt_lookup_chain": lambda budget, answer, verifier=None: strategies.prompt_lookup(
        budget, tree=False, verifier=verifier
    ),
    "draft_model": lambda budget, answer, verifier=None: strategies.draft_model(
        small_drafter(), budget, verifier=verifier
    ),
    "draft_model_tree": lambda budget, answer, verifier=None: strategies.draft_model(
        small_drafter(), budget, tree=True, children=3, verifier=verifier
    ),
    "scripted": lambda budget, answer, verifier=None: scripted(answer, budget, verifier=verifier),
    "scripted_tree": lambda budget, answer, verifier=None: scripted(answer, budget, tree=True, verifier=verifier),
}


def engine(model: Model, strategy: Strategy | None = None, sampling: Sampling | None = None, **settings: Any) -> Engine:
    """An engine with the defaults of `generate`."""
    return Engine(model, strategy or strategies.plain(), sampling or sample_with(), **settings)


def decode(
    model: Model,
    prompts: Any = PROMPTS,
    strategy: Strategy | None = None,
    *,
    cap: int = CAP,
    sampling: Sampling | None = None,
    seeds: Any = None,
    **settings: Any,
) -> list[Result]:
    """Like `generate` on a batch of ids, in one call of the jitted loop; seeds default to 0, 1, ..."""
    bound = engine(model, strategy, sampling, **settings)
    state = bound.prefill(prompts, cap, seed_list(seeds, len(prompts)))
    return finish(bound, bound.run_owned(state), prompts)


def seed_list(seeds: Any, rows: int) -> list[int]:
    return list(range(rows)) if seeds is None else [int(seed) for seed in seeds]


def finish(bound: Engine, state: DecodeState, prompts: Any) -> list[Result]:
    return collect(bound, state, prompts, [()] * len(prompts), Timing(0.0, 0.0))


def ids(results: list[Result]) -> list[tuple[int, ...]]:
    return [result.ids for result in results]


@dataclasses.dataclass
class Compilations:
    """How many programs were compiled, and for how long."""

    count: int = 0


@contextlib.contextmanager
def count_compilations() -> Iterator[Compilations]:
    """Counts backend compilations of the block, in all threads."""
    found = Compilations()

    def hear(event: str, seconds: float, **details: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            found.count += 1

    jax.monitoring.register_event_duration_secs_listener(hear)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(hear)
