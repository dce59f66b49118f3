"""Peak memory of a stretch of work, and the bytes that a strategy adds to its target.

Leaves out: who holds the memory (`jax.profiler.device_memory_profile`).
"""

from __future__ import annotations

import dataclasses
import enum
import sys
from pathlib import Path
from typing import Any

import jax

from specdec.decoding.engine import Engine

_CLEAR = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


class PeakSource(enum.Enum):
    """What a peak is a peak of."""

    RESIDENT = "resident memory of the process, reset before each run"
    RESIDENT_EVER = "resident memory of the process since it started (it could not be reset)"
    DEVICE_EVER = "memory of the device since the process started (it cannot be reset)"
    UNKNOWN = "not known on this platform"


@dataclasses.dataclass
class PeakMemory:
    """High-water mark of memory over a `with` block.

    On a CPU that is the resident set of the whole process, so every part that is loaded counts, used or not.

    Args:
      bytes: the peak, once the block has ended; None where the platform does not tell.
      source: what it is a peak of.
    """

    bytes: int | None = None
    source: PeakSource = PeakSource.UNKNOWN

    def __enter__(self) -> PeakMemory:
        self.source = _reset()
        return self

    def __exit__(self, *error: object) -> None:
        self.bytes = _read(self.source)


def _reset() -> PeakSource:
    if "peak_bytes_in_use" in _device_statistics():
        return PeakSource.DEVICE_EVER
    try:
        _CLEAR.write_text("5")  # resets VmHWM, see proc(5)
    except OSError:
        return PeakSource.RESIDENT_EVER if sys.platform != "win32" else PeakSource.UNKNOWN
    return PeakSource.RESIDENT


def _read(source: PeakSource) -> int | None:
    match source:
        case PeakSource.DEVICE_EVER:
            return int(_device_statistics()["peak_bytes_in_use"])
        case PeakSource.RESIDENT:
            line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
            return int(line.split()[1]) * 1024
        case PeakSource.RESIDENT_EVER:
            import resource

            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            return peak if sys.platform == "darwin" else peak * 1024  # macOS alone counts in bytes
    return None


def _device_statistics() -> dict[str, Any]:
    device = getattr(jax.config, "jax_default_device", None) or jax.devices()[0]
    return getattr(device, "memory_stats", lambda: None)() or {}


def extra_bytes(engine: Engine, drafter_state: Any) -> int:
    """Bytes of drafter and selector beyond the target: their weights and the state kept between rounds.

    Arrays shared with the target, or between the two, count once or not at all. What a selector needs within one
    round only is not counted.

    Args:
      engine: the strategy bound to its target.
      drafter_state: `DecodeState.drafter` of a generation.
    """
    params = engine.params
    shared = {id(leaf) for leaf in jax.tree.leaves(params.target)}
    own = {id(leaf): leaf for leaf in jax.tree.leaves((params.drafter, params.selector, drafter_state))}
    return sum(leaf.nbytes for key, leaf in own.items() if key not in shared and hasattr(leaf, "nbytes"))
