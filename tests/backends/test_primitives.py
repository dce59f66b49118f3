"""Every form of every primitive equals NumPy, ties and special values included."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from specdec.backends import Backend, Workaround, argmax, cumsum, scatter_rows, sort_descending, top_k

ALL = tuple(w for w in Workaround if w is not Workaround.SORT_BY_TOP_K)
FORMS = [(), *((w,) for w in Workaround), ALL]
backends = pytest.mark.parametrize(
    "backend",
    [Backend("test", "cpu", workarounds=form) for form in FORMS],
    ids=["plain", *(w.name for w in Workaround), "ALL"],
)
quick = settings(max_examples=25, deadline=None)

# Few distinct values, so that nearly every row has ties; both zeros, because they must tie.
logits = hnp.arrays(np.float32, (3, 17), elements=st.sampled_from([-np.inf, -2.0, -0.0, 0.0, 0.5, 3.0, np.inf]))


@functools.partial(jax.jit, static_argnums=(1, 2))
def _argmax(x, axis, backend):
    return argmax(x, axis, backend)


@functools.partial(jax.jit, static_argnums=1)
def _sorted_and_top(x, backend):
    return sort_descending(x, backend), top_k(x, 5, backend)


@functools.partial(jax.jit, static_argnums=(3, 4))
def _scatter(table, index, rows, backend, axis):
    return scatter_rows(table, index, rows, backend, axis=axis)


@backends
@quick
@given(x=logits)
def test_argmax(backend, x):
    for axis in (0, 1, -1):
        ids = _argmax(x, axis, backend)
        assert ids.dtype == jnp.int32
        np.testing.assert_array_equal(ids, np.argmax(x, axis))


@backends
@pytest.mark.parametrize("axis", [1, -1])
def test_argmax_of_nan_is_the_first_nan(backend, axis):
    nan = np.float32(np.nan)
    x = np.array([[1, nan, 9, nan], [nan, np.inf, 0, 0], [3, 4, -np.inf, -nan], [nan] * 4], np.float32)
    np.testing.assert_array_equal(_argmax(x, axis, backend), [1, 0, 3, 0])


@backends
def test_argmax_of_three_axes_and_halves(backend):
    x = np.random.default_rng(0).integers(-2, 3, (2, 5, 7)).astype(jnp.bfloat16)
    for axis in range(3):
        np.testing.assert_array_equal(_argmax(x, axis, backend), np.argmax(x.astype(np.float32), axis))


@backends
@quick
@given(x=logits)
def test_top_k_and_sort(backend, x):
    ids = np.argsort(-x, axis=1, kind="stable")
    values = np.take_along_axis(x, ids, 1)
    for (got_values, got_ids), k in zip(_sorted_and_top(x, backend), (17, 5), strict=True):
        assert got_ids.dtype == jnp.int32
        np.testing.assert_array_equal(got_ids, ids[:, :k])
        np.testing.assert_array_equal(got_values, values[:, :k])


@backends
def test_top_k_keeps_nan_visible_and_ids_valid(backend):
    x = np.array([0.0, 2.0, -np.nan, 1.0, np.nan, -np.inf] + [-1.0] * 11, np.float32)[None]
    for values, ids in _sorted_and_top(x, backend):
        np.testing.assert_array_equal(ids[0, :5], [2, 4, 1, 3, 0])
        np.testing.assert_array_equal(values[0, :5], [np.nan, np.nan, 2, 1, 0])
        assert len(set(np.asarray(ids[0]))) == ids.shape[1]


@backends
@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_cumsum(backend, size):
    x = np.random.default_rng(size).standard_normal((2, 3, size)).astype(np.float32)
    counts = np.arange(size, dtype=np.int32)
    np.testing.assert_allclose(cumsum(jnp.asarray(x), backend), np.cumsum(x, -1), atol=1e-5)
    np.testing.assert_array_equal(cumsum(jnp.asarray(counts), backend), np.cumsum(counts))


@backends
@quick
@given(data=st.data(), axis=st.sampled_from([1, 2, -1]))
def test_scatter_rows(backend, data, axis):
    shape, count = (2, 6, 6, 6), 4
    places = st.lists(st.integers(-8, 8), min_size=count, max_size=count)
    # Only places inside the table must be distinct; those outside may repeat.
    distinct = places.filter(lambda p: len(inside := [n for n in p if 0 <= n < 6]) == len(set(inside)))
    index = np.array([data.draw(distinct), data.draw(distinct)], np.int32)
    generator = np.random.default_rng(0)
    table = generator.standard_normal(shape).astype(np.float32)
    rows = generator.standard_normal((2, 6, 6, 6)).astype(np.float32)
    rows = np.take(rows, range(count), axis)
    expected = table.copy()
    for b, m in np.ndindex(index.shape):
        if 0 <= index[b, m] < 6:
            np.moveaxis(expected[b], axis - 1 if axis > 0 else axis, 0)[index[b, m]] = np.moveaxis(
                rows[b], axis - 1 if axis > 0 else axis, 0
            )[m]
    np.testing.assert_array_equal(_scatter(table, index, rows, backend, axis), expected)


@backends
def test_scatter_rows_of_ids_keeps_the_tables_format(backend):
    table = jnp.full((2, 5), -1, jnp.int32)
    index = jnp.array([[4, 0], [5, 2]], jnp.int32)
    rows = jnp.array([[7, 8], [9, 10]], jnp.int32)
    got = scatter_rows(table, index, rows, backend)
    assert got.dtype == jnp.int32
    np.testing.assert_array_equal(got, [[8, -1, -1, -1, 7], [-1, -1, 10, -1, -1]])


@backends
def test_scatter_of_infinities_stays_clean(backend):
    """A one-hot product would make NaN out of 0 * inf."""
    table = jnp.zeros((1, 4), jnp.float32)
    got = scatter_rows(table, jnp.array([[2]]), jnp.array([[-jnp.inf]], jnp.float32), backend)
    np.testing.assert_array_equal(got, [[0, 0, -np.inf, 0]])
