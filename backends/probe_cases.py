"""The probed computations: each names its inputs and what NumPy says of them.

Leaves out: running and judging them (`probes.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from specdec.backends import primitives
from specdec.backends.base import Backend
from specdec.backends.reports import Primitive

VOCABULARY = 49152


@dataclasses.dataclass(frozen=True)
class Case:
    """One computation.

    Args:
      function: what is jitted; returns one array or a tuple.
      inputs: NumPy arguments. Offsets and masks are among them, so that nothing folds to a constant.
      expected: NumPy's answers, with the dtypes that are required too.
      tolerance: largest absolute error that passes.
    """

    function: Callable[..., Any]
    inputs: tuple[Any, ...]
    expected: tuple[np.ndarray, ...]
    tolerance: float = 0.0


def tied_logits(rows: int = 3) -> np.ndarray:
    """Make rows of a vocabulary full of ties, one constant row and one with a single finite value among them.

    Args:
      rows: how many, at least 3.

    Returns:
      float32 `[rows, VOCABULARY]`.
    """
    logits = np.round(4 * np.random.default_rng(0).standard_normal((rows, VOCABULARY))).astype(np.float32) / 4
    logits[1] = -1.5
    logits[2, :-7] = -np.inf
    return logits


def threefry(key: tuple[int, int], count: tuple[int, int]) -> tuple[int, int]:
    """Encrypt one counter with the 20-round Threefry-2x32 cipher, the core of JAX's default generator.

    Args:
      key: two 32-bit words.
      count: two 32-bit words.

    Returns:
      Two 32-bit words.

    References:
      Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011, section 3.3.
    """
    mask = 0xFFFFFFFF
    schedule = (key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDA)
    rotations = ((13, 15, 26, 6), (17, 29, 16, 24))
    x, y = (count[0] + schedule[0]) & mask, (count[1] + schedule[1]) & mask
    for group in range(5):
        for bits in rotations[group % 2]:
            x = (x + y) & mask
            y = ((y << bits) | (y >> (32 - bits))) & mask
            y ^= x
        x = (x + schedule[(group + 1) % 3]) & mask
        y = (y + schedule[(group + 2) % 3] + group + 1) & mask
    return x, y


def _while_loop(backend: Backend) -> Case:
    """A data-dependent loop with a typed random key in its carry, as the decoding loop has."""
    limit = 40

    def going(carry):
        _, data, step, _ = carry
        return (step < limit) & ((data[0] & 15) != 0)

    def body(carry):
        key, data, step, total = carry
        key = jax.random.fold_in(key, step)
        data = jax.random.key_data(key)
        return key, data, step + 1, total ^ data

    def function(words):
        key = jax.random.wrap_key_data(words, impl="threefry2x32")
        _, data, step, total = lax.while_loop(going, body, (key, words, jnp.int32(0), jnp.zeros_like(words)))
        return data, step, total

    words = (1, 7)
    data, step, total = words, 0, (0, 0)
    while step < limit and data[0] & 15:
        data = threefry(data, (0, step))
        total = (total[0] ^ data[0], total[1] ^ data[1])
        step += 1
    expected = (np.array(data, np.uint32), np.array(step, np.int32), np.array(total, np.uint32))
    return Case(function, (np.array(words, np.uint32),), expected)


def _bits(backend: Backend) -> Case:
    """Wrapping products, rotations, signed shifts, and bits turned into floats in [0, 1)."""

    def function(x):
        mixed = (x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        mixed = (mixed << np.uint32(13)) | (mixed >> np.uint32(19))
        floats = lax.bitcast_convert_type((mixed >> np.uint32(9)) | np.uint32(0x3F800000), jnp.float32)
        signed = lax.bitcast_convert_type(mixed, jnp.int32)
        return mixed, floats - np.float32(1), (signed >> np.int32(3)) & np.int32(-6)

    x = np.random.default_rng(1).integers(0, 2**32, (8, 512), dtype=np.uint32)
    mixed = (x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    mixed = (mixed << np.uint32(13)) | (mixed >> np.uint32(19))
    floats = ((mixed >> np.uint32(9)) | np.uint32(0x3F800000)).view(np.float32) - np.float32(1)
    return Case(function, (x,), (mixed, floats, (mixed.view(np.int32) >> np.int32(3)) & np.int32(-6)))


def _argmax(backend: Backend) -> Case:
    x = tied_logits()
    return Case(lambda x: primitives.argmax(x, -1, backend), (x,), (np.argmax(x, -1).astype(np.int32),))


def _top_k(backend: Backend) -> Case:
    x, k = tied_logits(), 64
    ids = np.argsort(-x, axis=-1, kind="stable")[:, :k]
    expected = (np.take_along_axis(x, ids, -1), ids.astype(np.int32))
    return Case(lambda x: primitives.top_k(x, k, backend), (x,), expected)


def _sort(backend: Backend) -> Case:
    x = tied_logits()
    ids = np.argsort(-x, axis=-1, kind="stable")
    expected = (np.take_along_axis(x, ids, -1), ids.astype(np.int32))
    return Case(lambda x: primitives.sort_descending(x, backend), (x,), expected)


def _cumsum(backend: Backend) -> Case:
    x = np.random.default_rng(2).dirichlet(np.ones(VOCABULARY), 2).astype(np.float32)
    expected = np.cumsum(x, -1, dtype=np.float64).astype(np.float32)
    return Case(lambda x: primitives.cumsum(x, backend), (x,), (expected,), 1e-5)


def _gather(backend: Backend) -> Case:
    """Rows of an embedding by id, and entries of each row by that row's own ids."""
    generator = np.random.default_rng(3)
    table = generator.standard_normal((300, 24)).astype(np.float32)
    ids = generator.integers(0, 300, (3, 5), dtype=np.int32)
    values = generator.standard_normal((3, 4, 50)).astype(np.float32)
    places = generator.integers(0, 50, (3, 4, 6), dtype=np.int32)

    def function(table, ids, values, places):
        return table[ids], jnp.take_along_axis(values, places, axis=-1)

    expected = (table[ids], np.take_along_axis(values, places, -1))
    return Case(function, (table, ids, values, places), expected)


def _scatter(backend: Backend) -> Case:
    """Rows written into a cache `[batch, kv_heads, capacity, head_dim]`, two of them dropped."""
    generator = np.random.default_rng(4)
    table = generator.standard_normal((2, 3, 20, 8)).astype(np.float32)
    rows = generator.standard_normal((2, 3, 4, 8)).astype(np.float32)
    index = np.array([[5, 0, 20, 19], [-1, 7, 3, 2]], np.int32)
    expected = table.copy()
    for b, m in np.ndindex(index.shape):
        if 0 <= index[b, m] < 20:
            expected[b, :, index[b, m]] = rows[b, :, m]
    return Case(lambda t, i, r: primitives.scatter_rows(t, i, r, backend, axis=2), (table, index, rows), (expected,))


def _dynamic_slice(backend: Backend) -> Case:
    """One offset inside and one that must be clamped."""
    x = np.random.default_rng(5).standard_normal((3, 40)).astype(np.float32)

    def function(x, start):
        return tuple(lax.dynamic_slice_in_dim(x, start[n], 8, axis=1) for n in range(2))

    return Case(function, (x, np.array([11, 38], np.int32)), (x[:, 11:19], x[:, 32:40]))


def _dynamic_update_slice(backend: Backend) -> Case:
    """One offset inside and one that must be clamped."""
    x, y = np.random.default_rng(6).standard_normal((2, 3, 40)).astype(np.float32)
    y = y[:, :8]

    def function(x, y, start):
        return tuple(lax.dynamic_update_slice_in_dim(x, y, start[n], axis=1) for n in range(2))

    inside, clamped = x.copy(), x.copy()
    inside[:, 11:19], clamped[:, 32:40] = y, y
    return Case(function, (x, y, np.array([11, 38], np.int32)), (inside, clamped))


def _masked_attention(backend: Backend) -> Case:
    """Softmax over unmasked keys; a query that sees no key gets zeros and no NaN."""
    generator = np.random.default_rng(7)
    keys, values = generator.standard_normal((2, 2, 2, 48, 16)).astype(np.float32)
    queries = generator.standard_normal((2, 2, 6, 16)).astype(np.float32)
    mask = generator.random((2, 1, 48, 6)) < 0.4
    mask[1, :, :, 2] = False

    def function(queries, keys, values, mask):
        scores = jnp.einsum("bksd,bkgd->bksg", keys, queries, precision="highest")
        scores = jnp.where(mask, scores, -jnp.inf)
        peak = jnp.max(scores, 2, keepdims=True)
        weights = jnp.exp(scores - jnp.where(jnp.isfinite(peak), peak, 0.0))
        total = jnp.sum(weights, 2, keepdims=True)
        weights = weights / jnp.where(total > 0, total, 1.0)
        return jnp.einsum("bksd,bksg->bkgd", values, weights, precision="highest")

    scores = np.einsum("bksd,bkgd->bksg", keys.astype(np.float64), queries.astype(np.float64))
    weights = np.where(mask, np.exp(scores - scores.max(2, keepdims=True)), 0.0)
    weights /= np.maximum(weights.sum(2, keepdims=True), 1e-300)
    expected = np.einsum("bksd,bksg->bkgd", values.astype(np.float64), weights).astype(np.float32)
    return Case(function, (queries, keys, values, mask), (expected,), 1e-5)


def _matmul(dtype: Any, tolerance: float) -> Case:
    """Rounding to a format, a product with fp32 sums, and rounding again.

    The sum runs over 256 terms of size 1, so its error stays near 1e-5 in fp32; TF32 would be off by 1e-2.
    """
    generator = np.random.default_rng(8)
    a, b = (
        generator.standard_normal((64, 256)).astype(np.float32),
        generator.standard_normal((256, 48)).astype(np.float32),
    )

    def function(a, b):
        product = jnp.matmul(a.astype(dtype), b.astype(dtype), precision="highest", preferred_element_type=jnp.float32)
        return product, a.astype(dtype).astype(jnp.float32)

    rounded = a.astype(dtype).astype(np.float32)
    product = (rounded.astype(np.float64) @ b.astype(dtype).astype(np.float64)).astype(np.float32)
    return Case(function, (a, b), (product, rounded), tolerance)


CASES: dict[Primitive, Callable[[Backend], Case]] = {
    Primitive.WHILE_LOOP: _while_loop,
    Primitive.BITS: _bits,
    Primitive.ARGMAX: _argmax,
    Primitive.TOP_K: _top_k,
    Primitive.SORT: _sort,
    Primitive.CUMSUM: _cumsum,
    Primitive.GATHER: _gather,
    Primitive.SCATTER: _scatter,
    Primitive.DYNAMIC_SLICE: _dynamic_slice,
    Primitive.DYNAMIC_UPDATE_SLICE: _dynamic_update_slice,
    Primitive.MASKED_ATTENTION: _masked_attention,
    Primitive.FLOAT32_MATMUL: lambda backend: _matmul(np.float32, 2e-4),
    # A machine that rounds the product to 16 bits as well is off by up to 0.13 (bf16) here: still usable.
    Primitive.BFLOAT16_MATMUL: lambda backend: _matmul(ml_dtypes.bfloat16, 0.25),
    Primitive.FLOAT16_MATMUL: lambda backend: _matmul(np.float16, 0.05),
}
