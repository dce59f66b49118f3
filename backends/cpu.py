"""The CPU backend: fp32 at full precision.

Leaves out: where these choices were measured (`docs/performance.md`).
"""

from __future__ import annotations

from specdec.backends.base import Backend, check_dtype

# About a fifth faster at 16 to 32 nodes and batch 1, but three times slower in a batch-96 generator.
XLA_FLAGS = ("--xla_cpu_use_onednn=true",)


def make(*, dtype: str | None = None, fallbacks: tuple[str, ...] = ()) -> Backend:
    """Build the CPU backend.

    Args:
      dtype: format of weights and activations; float32 when None.
      fallbacks: why the CPU was taken, when something else was wanted.

    Returns:
      The backend. Products stay at the highest precision in every format.

    Raises:
      SettingsError: an unknown format.
    """
    dtype = check_dtype(dtype or "float32")
    notes = () if dtype == "float32" else (f"{dtype} is slower than float32 on most CPUs.",)
    return Backend(
        name="cpu",
        platform="cpu",
        dtype=dtype,
        cache_dtype=dtype,
        xla_flags=XLA_FLAGS,
        fallbacks=fallbacks,
        notes=notes,
    )
