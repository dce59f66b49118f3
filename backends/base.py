"""What the rest of the library asks of a machine: number formats, product order, primitives to avoid.

A `Backend` is a frozen, hashable value, so it may be a static argument of a jitted function.
Leaves out: how its values are chosen (`cpu.py`, `cuda.py`, `metal.py`, `select.py`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum

import jax

from specdec.errors import ConfigError, SettingsError

DTYPES = ("float32", "bfloat16", "float16")


class Workaround(enum.Enum):
    """A primitive that this machine gets wrong, with what `primitives.py` does instead."""

    ARGMAX_BY_MAX = "argmax as the least id that equals the maximum"
    TOP_K_BY_SORT = "top-k as the head of a full sort"
    SORT_BY_TOP_K = "sort as a top-k of everything"
    SCATTER_BY_SELECT = "scatter as a gather and a select over the whole table"
    CUMSUM_BY_SHIFTS = "cumulative sum by doubling shifts"


def check_dtype(dtype: str) -> str:
    """Refuse a number format that no backend offers.

    Args:
      dtype: name of a floating-point format.

    Returns:
      `dtype`, unchanged.

    Raises:
      SettingsError: the name is none of `DTYPES`.
    """
    if dtype not in DTYPES:
        raise SettingsError(f"dtype: expected one of {', '.join(DTYPES)}; got {dtype!r}.")
    return dtype


@dataclasses.dataclass(frozen=True)
class Backend:
    """Choices that depend on the machine and on nothing else.

    The last three fields inform the user and change no computation. They take no part in equality or
    hashing, so that two backends which compute the same share one compilation.

    Args:
      name: family: "cpu", "cuda", "metal" or "generic".
      platform: JAX's own name of the platform that holds the arrays ("cpu", "gpu", "mps", "METAL", ...).
      dtype: format of weights and activations.
      cache_dtype: format of cached keys and values.
      precision: precision of matrix products. `HIGHEST` keeps fp32 products in fp32, where a GPU would
        otherwise round their inputs to TF32.
      prefill_chunk: most prompt tokens in one pass, the largest prefill bucket.
      workarounds: what `primitives.py` must avoid.
      xla_flags: flags worth trying. XLA reads `XLA_FLAGS` once, when JAX starts, so only a command line
        can set them; a library can only offer them.
      fallbacks: what was wanted and could not be had, one sentence each.
      notes: other things worth printing in a report.

    Raises:
      SettingsError: an unknown format, or a prefill chunk below 1.
    """

    name: str
    platform: str
    dtype: str = "float32"
    cache_dtype: str = "float32"
    precision: jax.lax.Precision = jax.lax.Precision.HIGHEST
    prefill_chunk: int = 512
    workarounds: tuple[Workaround, ...] = ()
    xla_flags: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    fallbacks: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    notes: tuple[str, ...] = dataclasses.field(default=(), compare=False)

    def __post_init__(self):
        check_dtype(self.dtype)
        check_dtype(self.cache_dtype)
        if self.prefill_chunk < 1:
            raise SettingsError(f"prefill_chunk: expected at least 1; got {self.prefill_chunk}.")

    def device(self) -> jax.Device:
        """Return the first local device of this backend's platform.

        Returns:
          A device on which arrays and computations may be placed.

        Raises:
          ConfigError: JAX has no such platform in this process (a fallback to the CPU, say, while
            `JAX_PLATFORMS` names the GPU plugin only).
        """
        try:
            return jax.local_devices(backend=self.platform)[0]
        except RuntimeError as error:
            raise ConfigError(
                f"platform: backend {self.name!r} needs the JAX platform {self.platform!r}, "
                f"which JAX does not have here ({first_line(error)}). Install its plugin; "
                f"and if JAX_PLATFORMS is set, add {self.platform!r} to it or unset it."
            ) from error

    def scope(self) -> contextlib.AbstractContextManager:
        """Return a context in which JAX places new arrays on this backend's device.

        It matters after a fallback: the backend then says CPU while JAX's default is still the GPU.

        Returns:
          A context manager.

        Raises:
          ConfigError: as `device`.
        """
        return jax.default_device(self.device())


def precision_for(dtype: str) -> jax.lax.Precision:
    """Return the product precision that suits a format.

    Args:
      dtype: one of `DTYPES`.

    Returns:
      `HIGHEST` for float32, so that its products are not rounded to TF32; `DEFAULT` for the 16-bit
      formats, whose inputs are exact in the tensor cores already.
    """
    return jax.lax.Precision.HIGHEST if dtype == "float32" else jax.lax.Precision.DEFAULT


def first_line(error: BaseException) -> str:
    """Return an exception's class and the first line of its text, short enough for a notice.

    Args:
      error: any exception; compiler errors run to pages.

    Returns:
      One line of at most about 200 characters.
    """
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
