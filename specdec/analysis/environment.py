"""What a measurement ran on, without anything that identifies the machine or its user.

Leaves out: the measurement's own settings.
"""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

import jax

from specdec.model import Model

PACKAGES = ("specdec-jax", "jax", "jaxlib", "flax", "numpy", "transformers")


def environment(model: Model) -> dict[str, Any]:
    """Versions, platform, backend, number format, cores and XLA flags.

    Args:
      model: whose backend is described.
    """
    backend = model.target.backend
    return {
        "python": platform.python_version(),
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
        "system": f"{platform.system()} {platform.machine()}",
        "platform": backend.platform,
        "device": jax.local_devices(backend=backend.platform)[0].device_kind,
        "backend": backend.name,
        "dtype": backend.dtype,
        "cores": _cores(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1
