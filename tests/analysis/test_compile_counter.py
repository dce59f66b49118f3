import jax
import jax.numpy as jnp

from specdec.analysis import CompileCounter


def test_counts_what_is_compiled_inside_the_block_only():
    double = jax.jit(lambda x: 2 * x)
    x = jnp.arange(3.0)
    with CompileCounter() as first:
        double(x)
    with CompileCounter() as second:
        double(x)
    double(jnp.arange(4.0))
    assert (first.count, second.count) == (1, 0)
    assert first.seconds > 0


def test_counters_may_be_nested():
    triple = jax.jit(lambda x: 3 * x)
    x = jnp.arange(5.0)
    with CompileCounter() as outer, CompileCounter() as inner:
        triple(x)
    assert outer.count == inner.count == 1
