"""The GPU backend for NVIDIA (and, untested, AMD): bf16 where the chip multiplies it, else fp32.

Leaves out: asking the device (`probes.py`); this file only judges the answers.
"""

from __future__ import annotations

import re

from specdec.backends.base import Backend, check_dtype, precision_for
from specdec.backends.reports import Outcome, Primitive, ProbeReport

NAMES = ("cuda", "gpu", "rocm")

# Ampere. Turing and Volta emulate bf16.
BF16_CAPABILITY = (8, 0)

# Only asked when the capability says nothing (AMD reports a chip name there).
PROBES = (Primitive.BFLOAT16_MATMUL,)


def multiplies_bf16(report: ProbeReport) -> bool:
    """Say whether bf16 is worth using on the device that a report describes.

    Args:
      report: facts about the device. NVIDIA's compute capability ("9.0") decides when there is one;
        otherwise the bf16 product's probe does.

    Returns:
      True when the chip has bf16 arithmetic of its own.
    """
    number = re.fullmatch(r"(\d+)\.(\d+)", report.compute_capability or "")
    if number:
        return (int(number[1]), int(number[2])) >= BF16_CAPABILITY
    return report.outcome(Primitive.BFLOAT16_MATMUL) is Outcome.OK


def make(report: ProbeReport, *, dtype: str | None = None) -> Backend:
    """Build the GPU backend.

    Args:
      report: what the device says of itself; with the results of `PROBES` when it names no capability.
      dtype: format of weights and activations. None takes bfloat16 where the chip has it, else float32.
        Never float16 unasked: checkpoints trained in bf16 may exceed its largest value, 65504.

    Returns:
      The backend. In float32 products stay at full precision (no TF32), so greedy output can be compared
      with the CPU's.

    Raises:
      SettingsError: an unknown format.
    """
    able = multiplies_bf16(report)
    fallbacks: tuple[str, ...] = ()
    chosen = check_dtype(dtype or ("bfloat16" if able else "float32"))
    if chosen == "bfloat16" and not able:
        chosen = "float32"
        fallbacks = (f"bfloat16 was asked for, but {report.device_kind} has no bf16 arithmetic: using float32.",)
    return Backend(
        name="cuda",
        platform=report.platform,
        dtype=chosen,
        cache_dtype=chosen,
        precision=precision_for(chosen),
        prefill_chunk=1024,
        fallbacks=fallbacks,
        notes=(f"{report.device_kind}, compute capability {report.compute_capability or 'unknown'}",),
    )
