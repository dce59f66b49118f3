"""Run the primitives that we rely on and compare each with NumPy.

A plugin may lack a primitive, or compile it and answer wrongly; only running it tells. Sizes are those of use
(a vocabulary of 49152), since tie order in particular breaks only where a reduction is split. A plugin that
aborts the process aborts the probe too; `names` lets a caller leave such a primitive out.
Leaves out: the probed computations (`probe_cases.py`) and what follows from a failure (`decide.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

import jax
import numpy as np

from specdec.backends.base import Backend, Workaround, first_line
from specdec.backends.probe_cases import CASES, Case
from specdec.backends.reports import Outcome, Primitive, ProbeReport, ProbeResult
from specdec.errors import ConfigError


def run_probes(
    device: jax.Device | None = None,
    names: Iterable[Primitive | str] | None = None,
    *,
    workarounds: tuple[Workaround, ...] = (),
) -> ProbeReport:
    """Probe a device.

    Args:
      device: where to run; JAX's default device when None.
      names: which primitives, as members or as their values; all when None.
      workarounds: forms to probe in place of the plain ones (to check that a workaround works).

    Returns:
      The report, results in the order of `Primitive`.

    Raises:
      ConfigError: a name is not a primitive's.
    """
    wanted = set(Primitive) if names is None else {_primitive(name) for name in names}
    device = device or jax.devices()[0]
    backend = Backend(name="probe", platform=device.platform, workarounds=workarounds)
    with jax.default_device(device):
        results = tuple(_run(p, CASES[p], backend) for p in Primitive if p in wanted)
    return ProbeReport(
        platform=device.platform,
        results=results,
        device_kind=getattr(device, "device_kind", "unknown device"),
        compute_capability=getattr(device, "compute_capability", None),
    )


def _primitive(name: Primitive | str) -> Primitive:
    try:
        return Primitive(name)
    except ValueError:
        known = ", ".join(p.value for p in Primitive)
        raise ConfigError(f"probe names: expected among {known}; got {name!r}.") from None


def _run(primitive: Primitive, make_case: Callable[[Backend], Case], backend: Backend) -> ProbeResult:
    """Compile and run one case; whatever a plugin raises means that it cannot."""
    case = make_case(backend)
    try:
        got = jax.tree.map(np.asarray, jax.tree.leaves(jax.jit(case.function)(*case.inputs)))
    except Exception as error:  # plugins raise errors of many classes
        return ProbeResult(primitive, Outcome.UNSUPPORTED, float("nan"), first_line(error))
    gap = max(_difference(g, e) for g, e in zip(got, case.expected, strict=True))
    if gap <= case.tolerance:
        return ProbeResult(primitive, Outcome.OK, gap)
    detail = f"differs from NumPy by {gap:.3g}, tolerance {case.tolerance:.3g}"
    return ProbeResult(primitive, Outcome.WRONG, gap, detail)


def _difference(got: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest absolute difference, infinity where no difference can be taken."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return float("inf")
    # Equal infinities would subtract to NaN.
    apart = got != expected
    gap = np.abs(got[apart].astype(np.float64) - expected[apart].astype(np.float64))
    return float(np.max(np.where(np.isfinite(gap), gap, np.inf), initial=0.0))


# A call of this with a platform, primitives and workarounds: what tests replace.
Probe = Callable[[str, tuple[Primitive, ...], tuple[Workaround, ...]], ProbeReport]


@functools.cache
def probe_platform(
    platform: str, names: tuple[Primitive, ...], workarounds: tuple[Workaround, ...] = ()
) -> ProbeReport:
    """Probe a platform's first device, once per process for the same question.

    Args:
      platform: JAX's name of a platform.
      names: which primitives; none asks for the device's facts only.
      workarounds: as for `run_probes`.

    Returns:
      The report.

    Raises:
      ConfigError: JAX has no such platform in this process.
    """
    device = Backend(name="probe", platform=platform).device()
    return run_probes(device, names, workarounds=workarounds)
