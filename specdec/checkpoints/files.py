"""`ModelFiles`: where one model's files lie on this machine.

Leaves out: finding or fetching them (`locate.py`) and reading them (`opening.py`).
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
from pathlib import Path

_SAMPLE = 1 << 16
_WEIGHT_SUFFIXES = (".safetensors", ".json")


class ModelKind(enum.Enum):
    """How the files of a model are laid out."""

    HF_FOLDER = "folder with config.json and safetensors"
    GGUF = "one GGUF file"


@dataclasses.dataclass(frozen=True)
class ModelFiles:
    """The files of one model, all local.

    Args:
      name: what the user called the model.
      kind: layout of the files.
      folder: the folder that holds them (for a GGUF file, its parent).
      gguf: the GGUF file, or None for a Hugging Face folder.
      fingerprint: short text that tells two versions of the files apart in messages and records.
    """

    name: str
    kind: ModelKind
    folder: Path
    gguf: Path | None
    fingerprint: str


def of_folder(name: str, folder: Path) -> ModelFiles:
    """Describe a Hugging Face folder."""
    parts = sorted(path for path in folder.iterdir() if path.suffix in _WEIGHT_SUFFIXES and path.is_file())
    return ModelFiles(name, ModelKind.HF_FOLDER, folder, None, _fingerprint(parts))


def of_gguf(name: str, path: Path) -> ModelFiles:
    """Describe a GGUF file."""
    return ModelFiles(name, ModelKind.GGUF, path.parent, path, _fingerprint([path]))


def _fingerprint(paths: list[Path]) -> str:
    # Sizes and first bytes suffice to notice another version; hashing gigabytes at each start would not pay.
    digest = hashlib.blake2b(digest_size=6)
    size = 0
    for path in paths:
        size += path.stat().st_size
        digest.update(f"{path.name}:{path.stat().st_size}:".encode())
        with path.open("rb") as stream:
            digest.update(stream.read(_SAMPLE))
    return f"{len(paths)} files, {size} bytes, {digest.hexdigest()}"
