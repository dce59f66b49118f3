"""Selection by platform, fallbacks, and exactly one notice for each."""

import importlib
import importlib.metadata
import logging

import jax
import jax.numpy as jnp
import pytest

from specdec.backends import (
    Backend,
    Outcome,
    Primitive,
    Workaround,
    metal,
    notice,
    precision_for,
    run_probes,
    select,
)
from specdec.errors import ConfigError, SettingsError

# The package's attribute of that name is the function.
module = importlib.import_module("specdec.backends.select")
HIGHEST, DEFAULT = jax.lax.Precision.HIGHEST, jax.lax.Precision.DEFAULT


@pytest.fixture
def installed(monkeypatch):
    """Pretend that exactly the named plugins are installed."""

    def pretend(*names):
        def version(name):
            if name not in names:
                raise importlib.metadata.PackageNotFoundError(name)
            return "0"

        monkeypatch.setattr(importlib.metadata, "version", version)

    pretend()
    return pretend


@pytest.fixture
def injected(make_report):
    """Make a probe that answers what is asked with the given failures, and remembers the questions."""

    def make(failing=(), *, remedied=True, **facts):
        def probe(platform, names, workarounds):
            probe.asked.append((platform, names, workarounds))
            bad = () if workarounds and remedied else failing
            return make_report(bad, Outcome.UNSUPPORTED, platform, names, **facts)

        probe.asked = []
        return probe

    return make


def forbidden(*_):
    raise AssertionError("nothing needs probing")


def test_default_is_the_running_platform(cpu_only):
    backend = select(probe=forbidden)
    assert (backend.name, backend.platform, backend.dtype) == ("cpu", "cpu", "float32")
    assert backend.precision is HIGHEST
    assert backend.workarounds == backend.fallbacks == ()
    with backend.scope():
        assert jnp.zeros(()).device == backend.device() == jax.devices("cpu")[0]


def test_cpu_formats():
    assert select("CPU", dtype="bfloat16").cache_dtype == "bfloat16"
    assert "slower" in select("cpu", dtype="bfloat16").notes[0]
    with pytest.raises(SettingsError, match="float32, bfloat16, float16"):
        select("cpu", dtype="int8")


def test_named_unknown_platform_is_refused():
    with pytest.raises(ConfigError, match=r"cpu, cuda, gpu, rocm, metal, mps, mtl.*'cdua'"):
        select("cdua")


def test_running_unknown_platform_is_generic_with_a_notice(monkeypatch, caplog):
    monkeypatch.setattr(module.jax, "default_backend", lambda: "tpu")
    for _ in range(2):
        backend = select(probe=forbidden)
        assert (backend.name, backend.platform, backend.dtype) == ("generic", "tpu", "float32")
    assert [r.levelno for r in caplog.records] == [logging.WARNING]
    assert "'tpu'" in caplog.text


def test_jax_that_cannot_start(monkeypatch):
    def fail():
        raise RuntimeError("Unable to initialize backend 'mps'\nmore")

    monkeypatch.setattr(module.jax, "default_backend", fail)
    with pytest.raises(ConfigError, match=r"cannot start.*'mps'.*JAX_PLATFORMS"):
        select()


@pytest.mark.parametrize(
    ("capability", "asked", "dtype", "told"),
    [
        ("9.0", None, "bfloat16", False),
        ("8.0", None, "bfloat16", False),
        ("12.0", None, "bfloat16", False),
        ("7.5", None, "float32", False),
        ("7.5", "bfloat16", "float32", True),
        ("7.5", "float16", "float16", False),
        ("9.0", "float32", "float32", False),
    ],
)
def test_cuda_by_capability(injected, capability, asked, dtype, told):
    probe = injected(device_kind="card", compute_capability=capability)
    backend = select("cuda", dtype=asked, probe=probe)
    assert (backend.name, backend.dtype, bool(backend.fallbacks)) == ("cuda", dtype, told)
    assert backend.precision is (HIGHEST if dtype == "float32" else DEFAULT) is precision_for(dtype)


@pytest.mark.parametrize(("failing", "dtype"), [((), "bfloat16"), ([Primitive.BFLOAT16_MATMUL], "float32")])
def test_gpu_without_a_capability_is_asked(injected, failing, dtype):
    assert select("rocm", probe=injected(failing, compute_capability="gfx90a")).dtype == dtype


@pytest.mark.parametrize("name", ["cuda", "mps", "METAL"])
def test_named_platform_that_jax_lacks(name, installed, cpu_only):
    with pytest.raises(ConfigError, match=f"needs the JAX platform '{name}'"):
        select(name)


def test_metal_ok(injected, installed, cpu_only):
    installed("jax-mps")
    probe = injected()
    backend = select("mps", probe=probe)
    assert (backend.name, backend.platform, backend.dtype) == ("metal", "mps", "bfloat16")
    assert backend.workarounds == backend.fallbacks == ()
    assert backend.notes == ("provided by jax-mps",)
    assert len(probe.asked) == 1
    with pytest.raises(ConfigError, match="does not have here"):
        backend.device()


def test_metal_asks_only_about_the_format_in_question(injected, installed):
    for asked, half in [(None, "bfloat16"), ("float16", "float16"), ("float32", None)]:
        probe = injected()
        select("mps", dtype=asked, probe=probe)
        names = {p.value for p in probe.asked[0][1]}
        assert {n for n in names if n.endswith("float16_matmul")} == ({f"{half}_matmul"} if half else set())


def test_metal_workarounds_are_checked_in_their_turn(injected, installed, caplog):
    probe = injected([Primitive.TOP_K])
    backend = select("mps", probe=probe)
    assert backend.name == "metal" and backend.workarounds == (Workaround.TOP_K_BY_SORT,)
    assert probe.asked[1] == ("mps", (Primitive.TOP_K,), (Workaround.TOP_K_BY_SORT,))
    assert not caplog.records

    backend = select("mps", probe=injected([Primitive.TOP_K], remedied=False))
    assert backend.name == "cpu" and "even the workarounds fail" in backend.fallbacks[0]
    assert len(caplog.records) == 1


def test_metal_with_real_probes_of_the_workarounds(installed, make_report):
    """The second question is answered by running the remedies, here on the CPU."""
    failing = [Primitive.ARGMAX, Primitive.TOP_K, Primitive.CUMSUM, Primitive.SCATTER]

    def probe(platform, names, workarounds):
        if workarounds:
            return run_probes(names=names, workarounds=workarounds)
        return make_report(failing, platform=platform, names=names)

    assert len(select("mps", probe=probe).workarounds) == 4


def test_fallback_gives_one_notice_and_a_usable_cpu(injected, installed, caplog, cpu_only):
    for _ in range(3):
        backend = select("mps", probe=injected([Primitive.WHILE_LOOP, Primitive.BITS]))
        assert (backend.name, backend.dtype) == ("cpu", "float32")
        with backend.scope():
            jnp.zeros(()).block_until_ready()
    (record,) = caplog.records
    assert "while_loop" in record.getMessage() and "bits" in record.getMessage()
    select("mps", probe=injected([Primitive.GATHER]))
    assert len(caplog.records) == 2


def test_legacy_plugin_is_refused_before_it_is_probed(installed, caplog):
    installed("jax-metal")
    assert select("METAL", probe=forbidden).name == "cpu"
    (record,) = caplog.records
    assert "jax-mps" in record.getMessage() and "jax-metallib" in record.getMessage()


def test_another_plugin_that_says_metal_is_not_taken_for_the_legacy_one(injected, installed):
    assert select("METAL", probe=injected()).name == "metal"  # unknown, but it started
    installed("metaljax", "jax-metal")
    assert select("METAL", probe=injected()).notes == ("provided by metaljax",)


def test_silent_start_on_the_cpu_because_of_the_legacy_plugin(cpu_only, monkeypatch, installed, caplog):
    installed("jax-metal")
    monkeypatch.setattr(metal.host, "system", lambda: "Darwin")
    assert "does not start" in select().fallbacks[0]
    assert len(caplog.records) == 1
    assert select("cpu").fallbacks == ()  # who asks for the CPU misses nothing
    installed("jax-mps")
    assert select().fallbacks == ()


def test_notice_once_per_message(caplog):
    assert [notice("a"), notice("a"), notice("b"), notice("a")] == [True, False, True, False]
    assert [r.getMessage() for r in caplog.records] == ["a", "b"]


def test_backend_is_a_static_argument_that_ignores_remarks():
    plain, told = Backend("x", "cpu"), Backend("x", "cpu", notes=("n",), fallbacks=("f",), xla_flags=("--g",))
    assert plain == told and hash(plain) == hash(told)
    assert plain != Backend("x", "cpu", workarounds=(Workaround.ARGMAX_BY_MAX,))
    traces = []

    def function(x, backend):
        traces.append(backend)
        return x.astype(backend.dtype)

    jitted = jax.jit(function, static_argnums=1)
    for backend in (plain, told):
        jitted(jnp.zeros(2, jnp.float32), backend)
    assert len(traces) == 1


@pytest.mark.parametrize("bad", [{"dtype": "float64"}, {"cache_dtype": "int8"}, {"prefill_chunk": 0}])
def test_backend_refuses_nonsense(bad):
    with pytest.raises(SettingsError, match="expected"):
        Backend("x", "cpu", **bad)
