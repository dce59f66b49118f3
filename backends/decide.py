"""Whether to use an Apple GPU, in which format and with which workarounds: a pure function of the evidence.

Leaves out: gathering the evidence and acting on the decision (`metal.py`).
"""

from __future__ import annotations

import dataclasses
import re

from specdec.backends.base import Workaround, check_dtype
from specdec.backends.reports import Outcome, Primitive, ProbeReport
from specdec.errors import ConfigError

# Spellings met in the wild, lower-cased: jax-metal and metaljax say "METAL", jax-mps and jax-metallib "mps".
METAL_NAMES = ("metal", "mps", "mtl")

LEGACY_PLUGIN = "jax-metal"
# The first jax on which jax-metal 0.1.1, its last release, does not start.
LEGACY_ENDS = (0, 5, 1)

ADVICE = (
    "Install a living plugin instead, in an environment of its own: "
    "jax-mps (Python 3.12 or later, jax 0.11) or jax-metallib (Python 3.13, jax 0.10.1)."
)

FALLBACK = "Using the CPU instead of the Apple GPU"

REMEDIES = {
    Primitive.ARGMAX: Workaround.ARGMAX_BY_MAX,
    Primitive.TOP_K: Workaround.TOP_K_BY_SORT,
    Primitive.SORT: Workaround.SORT_BY_TOP_K,
    Primitive.CUMSUM: Workaround.CUMSUM_BY_SHIFTS,
    Primitive.SCATTER: Workaround.SCATTER_BY_SELECT,
}

# Without these there is no decoding loop, no exact noise, no cache and no model.
ESSENTIAL = (
    Primitive.WHILE_LOOP,
    Primitive.BITS,
    Primitive.GATHER,
    Primitive.DYNAMIC_SLICE,
    Primitive.DYNAMIC_UPDATE_SLICE,
    Primitive.MASKED_ATTENTION,
    Primitive.FLOAT32_MATMUL,
)

HALF_PROBES = {"bfloat16": Primitive.BFLOAT16_MATMUL, "float16": Primitive.FLOAT16_MATMUL}


@dataclasses.dataclass(frozen=True)
class Decision:
    """What to do with an Apple GPU.

    Args:
      use: whether to use it; otherwise the CPU.
      dtype: format of weights and activations.
      workarounds: what `primitives.py` must avoid there.
      fallback_reason: why it is not used, with advice; None when it is.
      dtype_reason: why `dtype` is not the one that was asked for; None when it is.
    """

    use: bool
    dtype: str = "float32"
    workarounds: tuple[Workaround, ...] = ()
    fallback_reason: str | None = None
    dtype_reason: str | None = None


def is_metal(platform: str) -> bool:
    """Say whether a platform name means an Apple GPU.

    Args:
      platform: a name in any case, such as "METAL" or "mps".

    Returns:
      True for every spelling of `METAL_NAMES`.
    """
    return platform.lower() in METAL_NAMES


def is_dead_legacy(platform: str, jax_version: str, plugin: str | None = None) -> bool:
    """Say whether this is Apple's jax-metal on a jax that it cannot run on.

    Args:
      platform: a name that `is_metal` accepts.
      jax_version: such as "0.10.2".
      plugin: distribution that provides the platform. When None, "METAL" in capitals is taken for
        jax-metal, which registers itself so.

    Returns:
      True for jax-metal on jax 0.5.1 or later.
    """
    plugin = plugin or (LEGACY_PLUGIN if platform == "METAL" else None)
    return plugin == LEGACY_PLUGIN and _version(jax_version) >= LEGACY_ENDS


def decide_metal(
    platform: str,
    report: ProbeReport | None,
    *,
    jax_version: str,
    plugin: str | None = None,
    dtype: str | None = None,
) -> Decision:
    """Decide from the evidence alone.

    Args:
      platform: JAX's name of the platform.
      report: its probes; None when it did not start.
      jax_version: such as "0.10.2".
      plugin: distribution that provides the platform, if known.
      dtype: format asked for. None takes bfloat16 if its probe passed, else float32. float16 is used only
        when asked for: checkpoints trained in bf16 may exceed its largest value, 65504.

    Returns:
      The decision. A primitive with a remedy gets a workaround, unless what the remedy rests on failed too;
      every other failure means the CPU, with one reason that names all of them.

    Raises:
      ConfigError: the platform is not an Apple GPU.
      SettingsError: an unknown format.
    """
    if not is_metal(platform):
        known = ", ".join(METAL_NAMES)
        raise ConfigError(f"platform: expected an Apple GPU ({known}, in any case); got {platform!r}.")
    if is_dead_legacy(platform, jax_version, plugin):
        return _refuse(
            f"{LEGACY_PLUGIN} was last released in 2024 and does not start on jax 0.5.1 or later; "
            f"this is jax {jax_version}. {ADVICE}",
            dtype,
        )
    if report is None:
        return _refuse(f"the plugin of platform {platform!r} did not start. {ADVICE}", dtype)
    if report.results and all(r.outcome is Outcome.UNSUPPORTED for r in report.results):
        return _refuse(
            f"nothing compiled on {platform!r} (first error: {report.results[0].detail}). "
            f"The plugin was probably made for another jaxlib than that of jax {jax_version}. {ADVICE}",
            dtype,
        )

    def fine(primitive: Primitive) -> bool:
        return report.outcome(primitive) is Outcome.OK

    broken = [primitive for primitive in ESSENTIAL if not fine(primitive)]
    if not fine(Primitive.TOP_K) and not fine(Primitive.SORT):
        broken += [Primitive.TOP_K, Primitive.SORT]  # each is the other's remedy
    if broken:
        listed = "; ".join(str(report.result(primitive)) for primitive in broken)
        return _refuse(f"{platform!r} lacks what decoding needs: {listed}.", dtype)
    workarounds = tuple(remedy for primitive, remedy in REMEDIES.items() if not fine(primitive))
    chosen, reason = _choose_dtype(dtype, report)
    return Decision(True, chosen, workarounds, dtype_reason=reason)


def _choose_dtype(dtype: str | None, report: ProbeReport) -> tuple[str, str | None]:
    wanted = check_dtype(dtype or "bfloat16")
    if wanted == "float32" or report.outcome(HALF_PROBES[wanted]) is Outcome.OK:
        return wanted, None
    if dtype is None:
        return "float32", None
    return "float32", f"{dtype} was asked for, but {report.result(HALF_PROBES[wanted])}: using float32."


def _refuse(reason: str, dtype: str | None) -> Decision:
    return Decision(False, check_dtype(dtype or "float32"), (), f"{FALLBACK}: {reason}")


def _version(text: str) -> tuple[int, ...]:
    """Read the leading numbers of a version ("0.11.0.dev20260101" gives (0, 11, 0))."""
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])
