"""Probes pass on the CPU, and a machine that is wrong, silent or raising is told apart from a sound one."""

import dataclasses
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec.backends import Backend, Outcome, Primitive, ProbeReport, Workaround, probe_platform, run_probes
from specdec.backends.probe_cases import CASES
from specdec.errors import ConfigError


def test_all_ok_and_fast():
    start = time.perf_counter()
    report = run_probes()
    assert report.platform != "cpu" or time.perf_counter() - start < 10
    assert [r.primitive for r in report.results] == list(Primitive)
    assert report.ok, "\n".join(map(str, report.failures))
    assert report.platform == jax.default_backend()


@pytest.mark.parametrize("workaround", Workaround)
def test_every_workaround_passes_the_probes_that_it_replaces(workaround):
    names = (Primitive.ARGMAX, Primitive.TOP_K, Primitive.SORT, Primitive.CUMSUM, Primitive.SCATTER)
    report = run_probes(names=names, workarounds=(workaround,))
    assert report.ok, "\n".join(map(str, report.failures))


def test_names_select_and_order_follows_the_enum():
    report = run_probes(names=["bits", Primitive.WHILE_LOOP])
    assert [r.primitive for r in report.results] == [Primitive.WHILE_LOOP, Primitive.BITS]
    assert report.outcome(Primitive.SORT) is Outcome.UNSUPPORTED
    assert report.result(Primitive.SORT).detail == "not probed"


def test_unknown_name_is_refused():
    with pytest.raises(ConfigError, match=r"while_loop.*'whale_loop'"):
        run_probes(names=["whale_loop"])


def _raise(*_):
    raise NotImplementedError("no such op\nsecond line")


FAULTS = {
    "off": (lambda x: jnp.argmax(x, -1).astype(jnp.int32) + jnp.int32(1), Outcome.WRONG, 1.0),
    "dtype": (lambda x: jnp.argmax(x, -1).astype(jnp.uint32), Outcome.WRONG, np.inf),
    "shape": (lambda x: jnp.argmax(x, -1, keepdims=True).astype(jnp.int32), Outcome.WRONG, np.inf),
    "raises": (_raise, Outcome.UNSUPPORTED, np.nan),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_told_apart(monkeypatch, fault):
    function, outcome, error = FAULTS[fault]
    make_case = CASES[Primitive.ARGMAX]

    def broken(backend):
        return dataclasses.replace(make_case(backend), function=function)

    monkeypatch.setitem(CASES, Primitive.ARGMAX, broken)
    (result,) = run_probes(names=[Primitive.ARGMAX]).results
    assert result.outcome is outcome
    np.testing.assert_equal(result.max_error, error)
    assert ("no such op" in result.detail and "second line" not in result.detail) == (fault == "raises")


@pytest.mark.parametrize("primitive", [Primitive.MASKED_ATTENTION, Primitive.CUMSUM])
def test_nan_is_wrong(monkeypatch, primitive):
    make_case = CASES[primitive]

    def broken(backend):
        case = make_case(backend)
        return dataclasses.replace(case, function=lambda *a: case.function(*a) * jnp.float32(jnp.nan))

    monkeypatch.setitem(CASES, primitive, broken)
    (result,) = run_probes(names=[primitive]).results
    assert (result.outcome, result.max_error) == (Outcome.WRONG, np.inf)


def test_ties_broken_upwards_are_wrong(monkeypatch):
    make_case = CASES[Primitive.TOP_K]

    def backwards(x):
        ids = jnp.argsort(x[:, ::-1], axis=1, stable=True, descending=True)[:, :64]
        ids = jnp.int32(x.shape[1] - 1) - ids.astype(jnp.int32)
        return jnp.take_along_axis(x, ids, 1), ids

    monkeypatch.setitem(
        CASES, Primitive.TOP_K, lambda backend: dataclasses.replace(make_case(backend), function=backwards)
    )
    assert run_probes(names=["top_k"]).outcome(Primitive.TOP_K) is Outcome.WRONG


def test_tf32_would_be_noticed():
    """Rounding the inputs to 10 bits of mantissa, as TF32 does, must exceed the fp32 tolerance."""
    case = CASES[Primitive.FLOAT32_MATMUL](Backend("x", "cpu"))

    def tf32(x):
        bits = x.view(np.uint32) + np.uint32(0x1000)
        return (bits & np.uint32(0xFFFFE000)).view(np.float32)

    product = tf32(case.inputs[0]) @ tf32(case.inputs[1])
    assert np.abs(product - case.expected[0]).max() > 10 * case.tolerance


def test_platform_is_probed_once_and_must_exist(cpu_only):
    first = probe_platform("cpu", (Primitive.BITS,), ())
    assert probe_platform("cpu", (Primitive.BITS,), ()) is first
    assert probe_platform("cpu", (), ()) == ProbeReport("cpu", (), first.device_kind)
    with pytest.raises(ConfigError, match="needs the JAX platform 'mps'"):
        probe_platform("mps", (), ())
