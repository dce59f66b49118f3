"""What is probed on a device, how a probe ends, and the report of all of them.

Leaves out: running probes (`probes.py`) and what follows from a failure (`decide.py`).
"""

from __future__ import annotations

import dataclasses
import enum


class Primitive(enum.Enum):
    """What is probed."""

    WHILE_LOOP = "while_loop"
    BITS = "bits"
    ARGMAX = "argmax"
    TOP_K = "top_k"
    SORT = "sort"
    CUMSUM = "cumsum"
    GATHER = "gather"
    SCATTER = "scatter"
    DYNAMIC_SLICE = "dynamic_slice"
    DYNAMIC_UPDATE_SLICE = "dynamic_update_slice"
    MASKED_ATTENTION = "masked_attention"
    FLOAT32_MATMUL = "float32_matmul"
    BFLOAT16_MATMUL = "bfloat16_matmul"
    FLOAT16_MATMUL = "float16_matmul"


class Outcome(enum.Enum):
    """How a probe ended."""

    OK = "ok"
    WRONG = "wrong"
    UNSUPPORTED = "unsupported"


@dataclasses.dataclass(frozen=True)
class ProbeResult:
    """One probe's end.

    Args:
      primitive: what was probed.
      outcome: OK within tolerance, WRONG beyond it, UNSUPPORTED when it raised.
      max_error: largest absolute difference from NumPy; infinity where a NaN, a shape or a dtype differs;
        NaN when nothing ran.
      detail: one line for the user, empty when OK.
    """

    primitive: Primitive
    outcome: Outcome
    max_error: float = 0.0
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.primitive.value}: {self.outcome.value}" + (f" ({self.detail})" if self.detail else "")


@dataclasses.dataclass(frozen=True)
class ProbeReport:
    """Facts about one device.

    Args:
      platform: JAX's name of the device's platform.
      results: one entry per probe that was run.
      device_kind: the device's own name.
      compute_capability: NVIDIA's "9.0", AMD's "gfx90a", or None.
    """

    platform: str
    results: tuple[ProbeResult, ...] = ()
    device_kind: str = "unknown device"
    compute_capability: str | None = None

    def result(self, primitive: Primitive) -> ProbeResult:
        """Return a primitive's result.

        Args:
          primitive: which one.

        Returns:
          Its result; UNSUPPORTED with the detail "not probed" when it was not run.
        """
        for result in self.results:
            if result.primitive is primitive:
                return result
        return ProbeResult(primitive, Outcome.UNSUPPORTED, float("nan"), "not probed")

    def outcome(self, primitive: Primitive) -> Outcome:
        """Return how a primitive's probe ended.

        Args:
          primitive: which one.

        Returns:
          Its outcome; what was not probed is not trusted: UNSUPPORTED.
        """
        return self.result(primitive).outcome

    @property
    def failures(self) -> tuple[ProbeResult, ...]:
        """The results that are not OK."""
        return tuple(result for result in self.results if result.outcome is not Outcome.OK)

    @property
    def ok(self) -> bool:
        """Whether every probe that was run ended OK."""
        return not self.failures
