"""What has to be set before JAX starts: XLA's flags and the cache of compiled programs.

Leaves out: choosing a backend (`specdec.backends.select`).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
from pathlib import Path

from specdec.checkpoints import cache_dir
from specdec.cli.output import warn
from specdec.errors import SettingsError

OFFERED, AS_IS = "default", "none"
WORTH_KEEPING = 0.2  # seconds of compilation


def prepare(xla_flags: str, *, compile_cache: bool) -> None:
    """Sets up JAX for one command.

    Args:
      xla_flags: "none" leaves the environment alone, "default" adds what the CPU backend offers, anything else
        is added as it is.
      compile_cache: keep compiled programs between runs.

    Raises:
      SettingsError: flags were asked for but JAX runs already.
    """
    _set_flags(xla_flags)
    if compile_cache:
        use_compile_cache()


def _set_flags(chosen: str) -> None:
    if chosen == AS_IS:
        return
    if chosen == OFFERED:
        from specdec.backends import cpu

        chosen = " ".join(cpu.XLA_FLAGS)
    if not all(flag.startswith("--") for flag in chosen.split()):
        raise SettingsError(f"--xla-flags: expected 'none', 'default', or flags that start with --; got {chosen!r}.")
    if _jax_runs():
        raise SettingsError("--xla-flags: JAX has started in this process, so XLA will not read them any more.")
    os.environ["XLA_FLAGS"] = " ".join(filter(None, (os.environ.get("XLA_FLAGS"), chosen)))


def _jax_runs() -> bool:
    from jax._src import xla_bridge  # JAX offers no public way to ask

    return xla_bridge.backends_are_initialized()


def use_compile_cache(folder: Path | None = None) -> None:
    """Keeps compiled programs between runs, unless JAX has been told where to keep them already.

    Args:
      folder: None takes one inside the library's cache, per JAX release and processor: compiled code must not
        travel to another one.
    """
    import jax

    if getattr(jax.config, "jax_compilation_cache_dir", None) is not None:
        return
    folder = folder or cache_dir() / "compiled" / _machine_key()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        warn(f"compiled programs cannot be kept in {folder} ({error.strerror}); set SPECDEC_CACHE.")
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", WORTH_KEEPING)


def _machine_key() -> str:
    processor = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        pass
    text = f"{importlib.metadata.version('jaxlib')} {platform.machine()} {processor}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]
