"""A checkpoint in safetensors files: one file, or shards named by an index.

The index decides: every shard it names must be whole and hold the tensors listed for it, and any other
file in the folder is ignored.
Leaves out: the layout of a single file (`safetensors_file.py`) and `.bin` / `.pth` pickles.
"""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np

from specdec.checkpoints import fp8
from specdec.checkpoints.safetensors_file import SafetensorsFile
from specdec.errors import CheckpointError

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_FLOATS = tuple(np.dtype(kind) for kind in (np.float32, np.float16, ml_dtypes.bfloat16))


class SafetensorsSource:
    """`TensorSource` over a folder.

    Args:
      folder: holds `model.safetensors`, or `model.safetensors.index.json` and its shards.
      fp8_block: rows and columns that share one scale where float8 weights are scaled by blocks.

    Raises:
      CheckpointError: a file is missing or damaged, the index names a tensor that its shard lacks, or a
        float8 tensor has no scale. Nothing has been read then but headers.
    """

    def __init__(self, folder: Path, *, fp8_block: tuple[int, int] = (128, 128)):
        self._folder = folder
        self._block = fp8_block
        self._files = _open(folder)
        everything = frozenset(self._files)
        self._scales: dict[str, str] = {}
        for name, file in self._files.items():
            if file.entries[name].dtype in fp8.FLOAT8:
                self._scales[name] = fp8.scale_name(name, everything, self.origin(name))
        self._names = everything - frozenset(self._scales.values())

    def names(self) -> frozenset[str]:
        """Every tensor but the float8 scales, which are already applied to their weights."""
        return self._names

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        return self._file(name).entries[name].shape

    def read(self, name: str) -> np.ndarray:
        """Values of a tensor: float32, float16 and bfloat16 bit by bit, float8 scaled to float32."""
        values = self._file(name).read(name)
        if name in self._scales:
            scale = self._scales[name]
            return fp8.dequantise(values, self._file(scale).read(scale), self._block, self.origin(name))
        if values.dtype == np.float64:
            return values.astype(np.float32)
        if values.dtype not in _FLOATS:
            raise CheckpointError(
                f"{self.origin(name)}: has dtype {values.dtype}, expected floating point weights. Quantised "
                "integer checkpoints are not supported; use the unquantised one, float8, or a GGUF file."
            )
        return values

    def origin(self, name: str) -> str:
        """File and tensor name."""
        file = self._files.get(name)
        return f"{file.path if file else self._folder}: tensor {name!r}"

    def _file(self, name: str) -> SafetensorsFile:
        if name not in self._files:
            raise CheckpointError(f"{self.origin(name)}: there is no such tensor in this checkpoint.")
        return self._files[name]


def _open(folder: Path) -> dict[str, SafetensorsFile]:
    index = folder / INDEX
    if index.is_file():
        return _open_shards(folder, _read_index(index))
    single = folder / SINGLE
    if single.is_file():
        file = SafetensorsFile(single)
        return dict.fromkeys(file.entries, file)
    found = sorted(path.name for path in folder.glob("*.safetensors")) or sorted(
        path.name for path in folder.iterdir() if path.suffix in (".bin", ".pth", ".pt")
    )
    raise CheckpointError(
        f"{folder}: expected {SINGLE} or {INDEX}, found {', '.join(found[:8]) or 'no weight files'}. "
        "Shards need their index; pickled weights must be converted to safetensors first."
    )


def _read_index(path: Path) -> dict[str, str]:
    try:
        weight_map = json.loads(path.read_bytes())["weight_map"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{path}: expected JSON with a weight_map ({error!r}). Download it again.") from error
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"{path}: weight_map should map tensor names to files, came {weight_map!r:.80}.")
    for name, shard in weight_map.items():
        # A shard is a neighbour of its index; anything else could read files elsewhere on the machine.
        if not isinstance(shard, str) or Path(shard).name != shard or shard in ("", ".", ".."):
            raise CheckpointError(f"{path}: tensor {name!r} should name a file in this folder, came {shard!r:.80}.")
    return weight_map


def _open_shards(folder: Path, weight_map: dict[str, str]) -> dict[str, SafetensorsFile]:
    opened: dict[str, SafetensorsFile] = {}
    for shard in sorted(set(weight_map.values())):
        if not (folder / shard).is_file():
            first = next(name for name, owner in weight_map.items() if owner == shard)
            raise CheckpointError(
                f"{folder / shard}: this shard is missing; {INDEX} places {first!r} and others in it. "
                "Download it again."
            )
        opened[shard] = SafetensorsFile(folder / shard)
    for name, shard in weight_map.items():
        if name not in opened[shard].entries:
            raise CheckpointError(
                f"{folder / shard}: {INDEX} places tensor {name!r} here, but the file does not hold it. "
                "Index and shards do not belong together; download both again."
            )
    return {name: opened[shard] for name, shard in weight_map.items()}
