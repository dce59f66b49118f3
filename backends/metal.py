"""The Apple GPU backend: probe, decide, check the workarounds, or hand over to the CPU.

None of the plugins runs on Linux, so what is tested there is the decision, with injected probe reports.
Leaves out: the rules (`decide.py`) and the probed computations (`probe_cases.py`).
"""

from __future__ import annotations

import importlib.metadata
import platform as host

import jax

from specdec.backends import cpu
from specdec.backends.base import Backend, precision_for
from specdec.backends.decide import (
    ESSENTIAL,
    FALLBACK,
    HALF_PROBES,
    LEGACY_PLUGIN,
    REMEDIES,
    decide_metal,
    is_dead_legacy,
)
from specdec.backends.probes import Probe, probe_platform

# By the platform name under which each registers, likeliest first.
PLUGINS = {"mps": ("jax-mps", "jax-metallib", "applejax"), "metal": ("metaljax", LEGACY_PLUGIN)}


def installed_plugin(platform: str) -> str | None:
    """Find the installed distribution that provides a platform, without importing it.

    Args:
      platform: JAX's name of the platform, in any case.

    Returns:
      The distribution's name, or None when no known one is installed.
    """
    for name in PLUGINS.get(platform.lower(), ()):
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        return name
    return None


def dead_plugin_reason() -> str | None:
    """Explain a Mac's silent start on the CPU.

    When jax-metal cannot start and no platform was demanded, JAX logs that at a level nobody sees.

    Returns:
      The reason with advice, or None when this is no Mac or no such plugin is in the way.
    """
    if host.system() != "Darwin" or installed_plugin("metal") != LEGACY_PLUGIN:
        return None
    return decide_metal("METAL", None, jax_version=jax.__version__, plugin=LEGACY_PLUGIN).fallback_reason


def make(platform: str, *, dtype: str | None = None, probe: Probe = probe_platform) -> Backend:
    """Build the Apple GPU backend, or the CPU's with the reason among its `fallbacks`.

    Args:
      platform: JAX's name of the platform ("mps", "METAL", ...).
      dtype: format asked for; see `decide_metal`.
      probe: `(platform, primitives, workarounds) -> ProbeReport`.

    Returns:
      The backend.

    Raises:
      ConfigError: JAX has no such platform in this process.
      SettingsError: an unknown format.
    """
    # A platform that JAX did start is not jax-metal's unless that is what is installed.
    plugin = installed_plugin(platform) or "an unknown plugin"
    report = None
    if not is_dead_legacy(platform, jax.__version__, plugin):
        # Half formats only where wanted: some plugins abort the process on bf16.
        half = HALF_PROBES.get(dtype or "bfloat16")
        report = probe(platform, (*ESSENTIAL, *REMEDIES, *([half] if half else ())), ())
    decision = decide_metal(platform, report, jax_version=jax.__version__, plugin=plugin, dtype=dtype)
    if decision.fallback_reason is not None:
        return cpu.make(dtype=decision.dtype, fallbacks=(decision.fallback_reason,))
    if decision.workarounds:
        # The remedies rest on primitives that were not probed by themselves, so they are probed as well.
        remedied = tuple(p for p, remedy in REMEDIES.items() if remedy in decision.workarounds)
        failures = probe(platform, remedied, decision.workarounds).failures
        if failures:
            listed = "; ".join(map(str, failures))
            reason = f"{FALLBACK}: even the workarounds fail on {platform!r}: {listed}."
            return cpu.make(dtype=dtype, fallbacks=(reason,))
    return Backend(
        name="metal",
        platform=platform,
        dtype=decision.dtype,
        cache_dtype=decision.dtype,
        precision=precision_for(decision.dtype),
        workarounds=decision.workarounds,
        fallbacks=(decision.dtype_reason,) if decision.dtype_reason else (),
        notes=(f"provided by {plugin}", *(f"workaround: {w.value}" for w in decision.workarounds)),
    )
