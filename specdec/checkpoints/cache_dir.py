"""Where downloaded models are kept on this machine.

Leaves out: what is stored there (`fetch.py`) and the hub's own cache, which huggingface_hub manages.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE = "SPECDEC_CACHE"


def cache_dir() -> Path:
    r"""The folder for downloaded models; it may not exist yet.

    `SPECDEC_CACHE` wins. Otherwise the platform's user cache is used: `$XDG_CACHE_HOME/specdec` (or
    `~/.cache/specdec`), `~/Library/Caches/specdec` on macOS, `%LOCALAPPDATA%\specdec` on Windows.

    Returns:
      An absolute path with `~` expanded.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    return _user_cache(sys.platform) / "specdec"


def _user_cache(platform: str) -> Path:
    home = Path.home()
    if platform == "win32":
        return _absolute_or(os.environ.get("LOCALAPPDATA"), home / "AppData" / "Local")
    if platform == "darwin":
        return home / "Library" / "Caches"
    return _absolute_or(os.environ.get("XDG_CACHE_HOME"), home / ".cache")


def _absolute_or(value: str | None, default: Path) -> Path:
    # The XDG specification says that a relative value is invalid and must be ignored.
    if value and Path(value).is_absolute():
        return Path(value)
    return default
