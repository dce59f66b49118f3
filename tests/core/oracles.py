"""Reference implementations in plain NumPy, written from the specification and not from the library.

Leaves out: speed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

import numpy as np

from specdec.targets.config import TargetConfig


def forward(config: TargetConfig, params, ids: Sequence[int]) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """A Llama-like decoder over a whole text in float64: logits, final-norm rows, residual rows after every layer."""

    def norm(x, weight):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + config.norm_eps) * np.asarray(weight, np.float64)

    def matrix(weight):
        return np.asarray(weight, np.float64).T

    length, dim = len(ids), config.head_dim
    angle = np.arange(length)[:, None] * config.rotary.theta ** (-np.arange(0, dim, 2) / dim)[None, :]

    def turn(x):
        first, second = x[..., : dim // 2], x[..., dim // 2 :]
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], -1)

    heads, shared = config.num_heads, config.num_kv_heads
    x = np.asarray(params.embed, np.float64)[np.asarray(ids)]
    rows = []
    for layer in params.layers:
        fused = (norm(x, layer.attn_norm) @ matrix(layer.qkv)).reshape(length, -1, dim)
        query, key, value = fused[:, :heads], fused[:, heads : heads + shared], fused[:, heads + shared :]
        query, key = turn(query), turn(key)
        mixed = np.zeros((length, heads, dim))
        for head in range(heads):
            group = head // (heads // shared)
            score = query[:, head] @ key[:, group].T / np.sqrt(dim)
            score[np.triu_indices(length, 1)] = -np.inf
            weight = np.exp(score - score.max(-1, keepdims=True))
            mixed[:, head] = weight / weight.sum(-1, keepdims=True) @ value[:, group]
        x = x + mixed.reshape(length, -1) @ matrix(layer.out)
        gate, up = np.split(norm(x, layer.mlp_norm) @ matrix(layer.gate_up), 2, axis=-1)
        x = x + (gate / (1 + np.exp(-gate)) * up) @ matrix(layer.down)
        rows.append(x)
    hidden = norm(x, params.norm)
    head = params.embed if params.head is None else params.head
    return hidden @ matrix(head), hidden, rows


def filtered(
    logits: np.ndarray,
    temperature: float,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
) -> np.ndarray:
    """Probabilities of one vocabulary after temperature, top-k, top-p and min-p, each on what the last one left."""
    scaled = np.asarray(logits, np.float64) / temperature
    p = np.exp(scaled - scaled.max())
    p /= p.sum()
    order = np.argsort(-p, kind="stable")
    if top_k is not None and top_k > 0:
        p[order[top_k:]] = 0
        p /= p.sum()
    if top_p is not None and top_p < 1:
        before = np.cumsum(p[order]) - p[order]
        drop = order[(before >= top_p) & (np.arange(len(order)) > 0)]
        p[drop] = 0
        p /= p.sum()
    if min_p:
        p[p < min_p * p.max()] = 0
        p /= p.sum()
    return p


def ancestors(parent: Sequence[int], slot: int) -> list[int]:
    """Slots of a root path, the slot itself first."""
    path = [slot]
    while parent[path[-1]] >= 0:
        path.append(parent[path[-1]])
    return path


def ddtree(logits: np.ndarray, log_z: np.ndarray, nodes: int) -> list[tuple[tuple[int, ...], float]]:
    """DDTree's heap: the most probable prefixes as rank tuples, in the order popped, with their scores.

    `logits` `[D, P]`, best first; ties go to the lexicographically smaller tuple.
    """
    edge = logits.astype(np.float64) - log_z.astype(np.float64)[:, None]
    heap = [(-edge[0, 0], (0,))]
    found = []
    while heap and len(found) < nodes:
        cost, ranks = heapq.heappop(heap)
        found.append((ranks, -cost))
        depth, last = len(ranks), ranks[-1]
        if last + 1 < edge.shape[1]:
            heapq.heappush(heap, (cost + edge[depth - 1, last] - edge[depth - 1, last + 1], (*ranks[:-1], last + 1)))
        if depth < edge.shape[0]:
            heapq.heappush(heap, (cost - edge[depth, 0], (*ranks, 0)))
    return found


def frontier(
    children: Callable[[tuple[int, ...]], list[tuple[int, float]]], budget: int, per_call: int, max_depth: int
) -> list[tuple[int, ...] | None]:
    """The batched best-first frontier: token paths in slot order; the root is the empty path, None an empty pick.

    Every call pops the best entries, writes them in order of score, and only then expands them. Ties go to the
    lexicographically smallest path of child ranks.
    """
    slots: list[tuple[int, ...] | None] = [()]
    entries: list[tuple[float, tuple[int, ...], tuple[int, ...]]] = []

    def push(score: float, ranks: tuple[int, ...], path: tuple[int, ...]) -> None:
        if len(path) < max_depth:
            for rank, (token, edge) in enumerate(children(path)):
                if edge > -np.inf:
                    entries.append((-(score + edge), (*ranks, rank), (*path, token)))

    push(0.0, (), ())
    while len(slots) < budget:
        batch = sorted(entries)[: min(per_call, budget - len(slots))]
        width = min(per_call, budget - len(slots))
        slots += [path for _, _, path in batch] + [None] * (width - len(batch))
        entries = [entry for entry in entries if entry not in batch]
        for cost, ranks, path in batch:
            push(-cost, ranks, path)
    return slots


def matches(history: Sequence[int], max_ngram: int, min_ngram: int, places: int) -> list[tuple[int, int]]:
    """Earlier places that end like the history, as (position, length of the match): longest, then latest, first."""
    last = len(history) - 1
    found = []
    for place in range(last):
        length = 0
        while length < min(max_ngram, place + 1) and history[place - length] == history[last - length]:
            length += 1
        if length >= min_ngram:
            found.append((length, place))
    return [(place, length) for length, place in sorted(found, reverse=True)[:places]]


def continuation(history: Sequence[int], place: int, depth: int) -> list[int]:
    """What followed a place, continued periodically where it runs into the end."""
    text = list(history[place + 1 :])
    return [text[step % len(text)] for step in range(depth)]
