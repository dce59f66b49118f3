"""Primitives on which the library's exactness rests, each with a second form for machines that get it wrong.

Ties go to the lowest id everywhere, -0 equals +0, and ids are int32. Which form runs is decided by
`Backend.workarounds` while tracing, so a sound machine does not pay for the others; the decoding loop names its
backend once with `using`, so that drafters, builders and verifiers need not carry it.
Leaves out: deciding which machine needs which form (`decide.py`).
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Shaped

from specdec.backends.base import Backend, Workaround

_SOUND = Backend(name="sound", platform="any")
_CURRENT = contextvars.ContextVar("backend", default=_SOUND)


@contextlib.contextmanager
def using(backend: Backend) -> Iterator[None]:
    """Name the backend that the primitives in this block are traced for.

    Args:
      backend: whose workarounds apply where no other is given. It must be a static argument of whatever is being
        compiled, or a compiled form made for another backend could be reused.
    """
    token = _CURRENT.set(backend)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def argmax(x: Float[Array, "*axes"], axis: int, backend: Backend | None = None) -> Int[Array, "*rest"]:
    """Return the lowest id of the largest element along an axis.

    Args:
      x: values, floating point.
      axis: axis to search; negative counts from the end.
      backend: whose workarounds to obey; None takes that of `using`.

    Returns:
      int32 ids, without `axis`. A slice that holds NaN gives the id of its first NaN (as NumPy does): still a
      valid id, so nothing indexes out of range before the host sees the NaN.
    """
    axis = axis % x.ndim
    if Workaround.ARGMAX_BY_MAX not in _workarounds(backend):
        return lax.argmax(x, axis, jnp.int32)
    nan = jnp.isnan(x)
    hit = jnp.where(jnp.any(nan, axis, keepdims=True), nan, x == jnp.max(x, axis, keepdims=True))
    size = x.shape[axis]
    ids = lax.broadcasted_iota(jnp.int32, x.shape, axis)
    # Clamped, because a machine that needs this branch may also compare NaN oddly and find no hit.
    return jnp.minimum(jnp.min(jnp.where(hit, ids, size), axis), size - 1)


def top_k(
    x: Float[Array, "*batch V"], k: int, backend: Backend | None = None
) -> tuple[Float[Array, "*batch P"], Int[Array, "*batch P"]]:
    """Return the k largest elements of the last axis, largest first, equal ones by ascending id.

    Args:
      x: values, floating point or integers.
      k: how many, at most the length of the last axis.
      backend: whose workarounds to obey; None takes that of `using`.

    Returns:
      `(values, ids)`, ids int32. NaN sorts before every finite number; how it ranks against +inf depends
      on the form.
    """
    x = _canonical(x)
    if Workaround.TOP_K_BY_SORT in _workarounds(backend):
        values, ids = _sort(x)
        return values[..., :k], ids[..., :k]
    values, ids = lax.top_k(x, k)
    return values, ids


def sort_descending(
    x: Float[Array, "*batch V"], backend: Backend | None = None
) -> tuple[Float[Array, "*batch V"], Int[Array, "*batch V"]]:
    """Sort the last axis, largest first, equal elements by ascending id.

    Args:
      x: values, floating point.
      backend: whose workarounds to obey; None takes that of `using`.

    Returns:
      `(values, ids)`, ids int32; NaN as in `top_k`.
    """
    x = _canonical(x)
    if Workaround.SORT_BY_TOP_K in _workarounds(backend):
        values, ids = lax.top_k(x, x.shape[-1])
        return values, ids
    return _sort(x)


def cumsum(x: Shaped[Array, "*batch V"], backend: Backend | None = None) -> Shaped[Array, "*batch V"]:
    """Return the running sum along the last axis, each element included in its own sum.

    Args:
      x: numbers.
      backend: whose workarounds to obey; None takes that of `using`.

    Returns:
      Sums in the format of `x`.
    """
    if Workaround.CUMSUM_BY_SHIFTS not in _workarounds(backend):
        return lax.cumsum(x, axis=x.ndim - 1)
    shift, size = 1, x.shape[-1]
    while shift < size:
        padding = [(0, 0)] * (x.ndim - 1) + [(shift, 0)]
        x = x + jnp.pad(x[..., :-shift], padding)
        shift *= 2
    return x


def scatter_rows(
    table: Shaped[Array, "B ..."],
    index: Int[Array, "B M"],
    rows: Shaped[Array, "B ..."],
    backend: Backend | None = None,
    *,
    axis: int = 1,
) -> Shaped[Array, "B ..."]:
    """Write rows of each batch element into places of its own along one axis.

    `table[b, ..., index[b, m], ...] = rows[b, ..., m, ...]`.

    Args:
      table: what is written to, batch first, with C places along `axis`.
      index: places. One outside 0 .. C - 1, negative ones included, writes nothing: that is how padding is
        dropped. No place may be named twice by one batch element; which row would win is undefined.
      rows: like `table`, but with M in place of C.
      backend: whose workarounds to obey; None takes that of `using`.
      axis: the axis of `table` that is indexed, at least 1.

    Returns:
      The new table, in the format of `table`.
    """
    axis = axis % table.ndim
    rows = rows.astype(table.dtype)
    if Workaround.SCATTER_BY_SELECT in _workarounds(backend):
        return jax.vmap(lambda t, i, r: _select_rows(t, i, r, axis - 1, backend))(table, index, rows)
    # JAX counts a negative index from the end; send it past the end, where "drop" drops it.
    index = jnp.where(index < 0, table.shape[axis], index)
    place = (slice(None),) * (axis - 1)
    return jax.vmap(lambda t, i, r: t.at[(*place, i)].set(r, mode="drop"))(table, index, rows)


def _select_rows(table, index, rows, axis, backend):
    """Rebuild one batch element's table: every place looks up the row that names it, if any does."""
    places = lax.broadcasted_iota(index.dtype, (table.shape[axis], index.shape[0]), 0)
    names = places == index[None, :]
    source = argmax(names.astype(jnp.float32), 1, backend)
    shape = [1] * table.ndim
    shape[axis] = table.shape[axis]
    written = jnp.any(names, axis=1).reshape(shape)
    return jnp.where(written, jnp.take(rows, source, axis=axis, mode="clip"), table)


def _workarounds(backend: Backend | None) -> tuple[Workaround, ...]:
    return (backend or _CURRENT.get()).workarounds


def _canonical(x):
    """Map -0 to +0 and every NaN to one: `lax.top_k` tells them apart, and equals would not tie by id."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return x
    x = jnp.where(x == 0, jnp.zeros((), x.dtype), x)
    return jnp.where(jnp.isnan(x), jnp.full((), jnp.nan, x.dtype), x)


def _sort(x):
    """Sort downwards by (-x, id); the id is a key, so the tie order does not rest on a stable sort."""
    # `lax.sort` puts NaN last; as -inf it comes first, and travels beside its key to stay visible.
    key = jnp.where(jnp.isnan(x), jnp.full((), -jnp.inf, x.dtype), -x)
    ids = lax.broadcasted_iota(jnp.int32, x.shape, x.ndim - 1)
    _, ids, values = lax.sort((key, ids, x), dimension=x.ndim - 1, num_keys=2)
    return values, ids
