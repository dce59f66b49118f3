"""Choose the backend for the platform that JAX runs on, once asked; never at import.

Leaves out: what each platform's choices are (`cpu.py`, `cuda.py`, `metal.py`).
"""

from __future__ import annotations

import jax

from specdec.backends import cpu, cuda, metal
from specdec.backends.base import Backend, check_dtype, first_line
from specdec.backends.decide import METAL_NAMES, is_metal
from specdec.backends.notices import notice
from specdec.backends.probes import Probe, probe_platform
from specdec.errors import ConfigError

KNOWN = ("cpu", *cuda.NAMES, *METAL_NAMES)


def select(platform: str | None = None, *, dtype: str | None = None, probe: Probe = probe_platform) -> Backend:
    """Choose a backend; this starts JAX's own backend.

    Whatever was wanted and could not be had is in `Backend.fallbacks`, and given notice of once per process.

    Args:
      platform: one of `KNOWN` in any case. None takes the platform that JAX runs on; if that is none of
        `KNOWN` (a TPU, say) the result is a generic float32 backend whose primitives nobody has probed.
      dtype: format of weights and activations; None lets the backend choose.
      probe: `(platform, primitives, workarounds) -> ProbeReport`, called for GPUs only; tests inject theirs.

    Returns:
      The backend. After a fallback its platform is not JAX's default: compute within `backend.scope()`.

    Raises:
      ConfigError: an unknown platform was named, JAX does not have the named one, or JAX cannot start.
      SettingsError: an unknown format.
    """
    found = platform or _running_platform()
    backend = _make(found, dtype, probe, named=platform is not None)
    for reason in backend.fallbacks:
        notice(reason)
    return backend


def _make(platform: str, dtype: str | None, probe: Probe, *, named: bool) -> Backend:
    if platform.lower() == "cpu":
        reason = None if named else metal.dead_plugin_reason()
        return cpu.make(dtype=dtype, fallbacks=(reason,) if reason else ())
    if platform.lower() in cuda.NAMES:
        return cuda.make(probe(platform, cuda.PROBES, ()), dtype=dtype)
    if is_metal(platform):
        return metal.make(_registered(platform) if named else platform, dtype=dtype, probe=probe)
    if named:
        raise ConfigError(f"platform: expected one of {', '.join(KNOWN)} (in any case); got {platform!r}.")
    reason = f"Platform {platform!r} is unknown here: taking plain primitives on trust; run_probes() checks them."
    dtype = check_dtype(dtype or "float32")
    return Backend(name="generic", platform=platform, dtype=dtype, cache_dtype=dtype, fallbacks=(reason,))


def _running_platform() -> str:
    try:
        return jax.default_backend()
    except RuntimeError as error:
        advice = metal.dead_plugin_reason() or "Unset JAX_PLATFORMS, or set it to 'cpu'."
        raise ConfigError(f"platform: JAX cannot start ({first_line(error)}). {advice}") from error


def _registered(platform: str) -> str:
    """Find the spelling under which an Apple plugin registered itself; a user may say "metal" for "mps"."""
    for name in (platform, *METAL_NAMES, *(name.upper() for name in METAL_NAMES)):
        try:
            jax.local_devices(backend=name)
        except RuntimeError:
            continue
        return name
    return platform
