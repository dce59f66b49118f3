"""What holds for every test: strict JAX, two fake CPU devices, no surprises from the surroundings.

Environment: `SPECDEC_REQUIRE=oracle,model` turns skips of tests with those marks into failures (CI sets it);
`JAX_PLATFORMS=cuda` runs the suite on another device than the CPU; `SPECDEC_TEST_CACHE=0` compiles everything
anew; `HYPOTHESIS_PROFILE=thorough` searches ten times longer.
"""

import hashlib
import importlib.util
import os
import platform
from pathlib import Path

# Before anything imports these. Subprocesses inherit them, which is wanted; JAX's own settings are made
# through jax.config below, so that a subprocess sees JAX as a user would.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("MPLBACKEND", "agg")

import hypothesis
import jax
import pytest

ROOT = Path(__file__).resolve().parent.parent
REQUIRED = {name for name in os.environ.get("SPECDEC_REQUIRE", "").split(",") if name}


def compilation_cache() -> Path:
    """A folder per JAX release and processor: compiled code must not travel to another one."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else [platform.processor()]
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), lines[0])
    key = f"{jax.__version__} {platform.machine()} {flags}"
    return ROOT / "build" / "jax-cache" / hashlib.sha256(key.encode()).hexdigest()[:12]


def configure_jax() -> None:
    """Two CPU devices cost nothing measurable: they share one pool of threads."""
    if "JAX_PLATFORMS" not in os.environ:
        jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 2)
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    jax.config.update("jax_numpy_rank_promotion", "raise")
    if os.environ.get("SPECDEC_TEST_CACHE", "1") != "0":
        jax.config.update("jax_compilation_cache_dir", str(compilation_cache()))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


configure_jax()

hypothesis.settings.register_profile("default", deadline=None, max_examples=50)
# CI draws the same examples every time: a red run is the change's fault.
hypothesis.settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True, print_blob=True)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=500)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "default"))


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to start when a required reference is not there."""
    if "oracle" in REQUIRED and importlib.util.find_spec("torch") is None:
        raise pytest.UsageError("SPECDEC_REQUIRE names oracle, but torch is not installed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the parity tests, with the reason, where their references are not installed."""
    if importlib.util.find_spec("torch") is None:
        for item in items:
            if "oracle" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="needs torch: pip install -e '.[oracle]'"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    """A skipped test that carries a required mark has failed."""
    report = yield
    marks = sorted(REQUIRED & {mark.name for mark in item.iter_markers()})
    if marks and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, but SPECDEC_REQUIRE names {', '.join(marks)}: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    """No file skips as a whole (`importorskip` at its top) when something is required."""
    report = yield
    if REQUIRED and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"skipped as a whole, but SPECDEC_REQUIRE is set: {report.longrepr}"
    return report


MANY_MAPS = 12_000


@pytest.fixture(autouse=True, scope="module")
def compiled_code_is_dropped():
    """Compiled programs hold memory maps, of which a Linux process may have 65,530: a long run would be aborted."""
    yield
    maps = Path("/proc/self/maps")
    if not maps.exists() or maps.read_bytes().count(b"\n") > MANY_MAPS:
        jax.clear_caches()
