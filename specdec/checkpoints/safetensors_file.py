"""One safetensors file: a checked header and lazily mapped tensors.

The header is checked in full before anything is read, so a cut or damaged file is refused at once.
NumPy has no bfloat16 or float8; `ml_dtypes` (which JAX brings) supplies them, so bits are kept as they are.
Leaves out: several files with an index (`safetensors.py`) and float8 scales (`fp8.py`).
"""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import ml_dtypes
import numpy as np

from specdec.errors import CheckpointError

_MAX_HEADER = 100_000_000  # the limit of the reference implementation
_DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu,
    "I64": np.int64,
    "U64": np.uint64,
    "I32": np.int32,
    "U32": np.uint32,
    "I16": np.int16,
    "U16": np.uint16,
    "I8": np.int8,
    "U8": np.uint8,
    "BOOL": np.bool_,
}


@dataclasses.dataclass(frozen=True)
class TensorEntry:
    """Type, shape and byte range of one tensor inside the file."""

    dtype: np.dtype
    shape: tuple[int, ...]
    start: int
    stop: int


class SafetensorsFile:
    """A safetensors file, mapped but not read.

    Args:
      path: the file.

    Raises:
      CheckpointError: the file is missing, cut short, longer than its header says, or malformed.
    """

    def __init__(self, path: Path):
        self.path = path
        self.entries = _read_header(path)
        # np.memmap refuses an empty file; _read_header already has.
        self._bytes = np.memmap(path, dtype=np.uint8, mode="r")

    def read(self, name: str) -> np.ndarray:
        """Values of one tensor in the file's own dtype, as a read-only view of the mapping."""
        entry = self.entries[name]
        raw = np.asarray(self._bytes[entry.start : entry.stop])
        if entry.start % max(entry.dtype.itemsize, 1):
            raw = raw.copy()
        return raw.view(entry.dtype).reshape(entry.shape)


def _read_header(path: Path) -> dict[str, TensorEntry]:
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            head = stream.read(8)
            length = int.from_bytes(head, "little")
            if len(head) < 8 or length > min(size - 8, _MAX_HEADER):
                raise CheckpointError(
                    f"{path}: not a whole safetensors file: its header should hold {length} bytes, "
                    f"the file has {max(size - 8, 0)} after the length. Download it again."
                )
            text = stream.read(length)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error}). Check the path and its permissions.") from error
    entries = _parse(path, text, 8 + length)
    end = max((entry.stop for entry in entries.values()), default=8 + length)
    if end != size:
        kind = "cut short" if size < end else "longer than it should be"
        last = max(entries, key=lambda name: entries[name].stop, default="(none)")
        raise CheckpointError(
            f"{path}: {kind}: the header describes {end} bytes (the last tensor is {last!r}), "
            f"the file has {size}. Download it again."
        )
    return entries


def _parse(path: Path, text: bytes, base: int) -> dict[str, TensorEntry]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: its header is not JSON ({error}). Download it again.") from error
    if not isinstance(header, dict):
        raise CheckpointError(f"{path}: its header should be a JSON object, came {type(header).__name__}.")
    header.pop("__metadata__", None)
    entries = {name: _entry(path, name, value, base) for name, value in header.items()}
    expected = base
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].stop)):
        if entry.start != expected:
            raise CheckpointError(
                f"{path}: tensor {name!r} should start at byte {expected}, its header says {entry.start}: "
                "tensors overlap or leave a gap. The file is damaged; download it again."
            )
        expected = entry.stop
    return entries


def _entry(path: Path, name: str, value: object, base: int) -> TensorEntry:
    problem = "its header entry should hold dtype, shape and two data_offsets"
    if isinstance(value, dict):
        code, shape, offsets = (
            value.get("dtype"),
            _counts(value.get("shape")),
            _counts(value.get("data_offsets")),
        )
        if shape is not None and offsets is not None and len(offsets) == 2 and isinstance(code, str):
            if code not in _DTYPES:
                raise CheckpointError(f"{path}: tensor {name!r} has dtype {code}; supported are {', '.join(_DTYPES)}.")
            dtype = np.dtype(_DTYPES[code])
            needed = math.prod(shape) * dtype.itemsize
            # NumPy's own bounds, which an empty tensor of absurd shape would exceed.
            sane = len(shape) <= 32 and math.prod(size or 1 for size in shape) < 1 << 59
            if sane and offsets[1] - offsets[0] == needed:
                return TensorEntry(dtype, tuple(shape), base + offsets[0], base + offsets[1])
            problem = f"{code} of shape {shape} needs {needed} bytes, its header gives {offsets}"
    raise CheckpointError(f"{path}: tensor {name!r}: {problem}. The file is damaged; download it again.")


def _counts(value: object) -> list[int] | None:
    if isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 62 for item in value):
        return value
    return None
