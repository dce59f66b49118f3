"""One GGUF file: its metadata and the place of every tensor, all bounds checked.

The container is read here rather than by the `gguf` package, whose reader trusts counts and offsets (a
hostile file can make it loop without end) and is several times slower on long vocabularies.

References:
  ggml-org/ggml, "GGUF" specification, docs/gguf.md, versions 2 and 3.

Leaves out: dequantisation and names (`gguf.py`), big-endian files and files split in parts.
"""

from __future__ import annotations

import dataclasses
import math
import mmap
import struct
from pathlib import Path

import numpy as np

from specdec.errors import CheckpointError

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MAX_DIMENSIONS = 4

Value = int | float | bool | str | list[str] | np.ndarray


@dataclasses.dataclass(frozen=True)
class GgufTensor:
    """Place of one tensor.

    Args:
      kind: name of the ggml type, such as `Q4_1`.
      shape: rows first (GGUF itself writes the fastest axis first).
      start, stop: byte range in the file.
    """

    kind: str
    shape: tuple[int, ...]
    start: int
    stop: int


class GgufFile:
    """A GGUF file, mapped but not read.

    Args:
      path: the file.

    Raises:
      CheckpointError: the file is missing, cut short, malformed, or of a version or layout that is not
        supported.
    """

    def __init__(self, path: Path):
        self.path = path
        try:
            with path.open("rb") as stream:
                self._map = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path}: cannot be read ({error}). Check the path and the file.") from error
        cursor = _Cursor(path, self._map)
        self.fields, tensor_count = _read_fields(cursor)
        self.tensors = _read_tensors(cursor, tensor_count, self._alignment())

    def raw(self, name: str) -> np.ndarray:
        """The bytes of one tensor, `[nbytes]` uint8, read-only."""
        tensor = self.tensors[name]
        return np.frombuffer(self._map, np.uint8, count=tensor.stop - tensor.start, offset=tensor.start)

    def _alignment(self) -> int:
        alignment = self.fields.get("general.alignment", 32)
        if type(alignment) is not int or not 0 < alignment <= 1 << 20 or alignment & (alignment - 1):
            raise CheckpointError(
                f"{self.path}: general.alignment should be a power of two, came {alignment!r:.80}. "
                "The file is damaged; download it again."
            )
        return alignment


class _Cursor:
    """A position in the file; every step is checked against its end."""

    def __init__(self, path: Path, data: mmap.mmap):
        self.path, self.data, self.at, self.size = path, data, 0, len(data)

    def fail(self, problem: str) -> CheckpointError:
        return CheckpointError(f"{self.path}: {problem} (near byte {self.at}). Download the file again.")

    def bytes(self, count: int, what: str) -> bytes:
        if count > self.size - self.at:
            raise self.fail(f"cut short: {what} needs {count} bytes, {self.size - self.at} are left")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, code: str, what: str) -> int:
        (value,) = struct.unpack("<" + code, self.bytes(struct.calcsize("<" + code), what))
        return value

    def text(self, what: str, errors: str = "strict") -> str:
        raw = self.bytes(self.number("Q", what), what)
        try:
            return raw.decode("utf-8", errors)
        except UnicodeDecodeError as error:
            raise self.fail(f"{what} is not UTF-8") from error

    def value(self, key: str) -> Value:
        kind = self.number("I", key)
        if kind in _SCALARS:
            return self.number(_SCALARS[kind], key)
        if kind == _STRING:
            return self.text(key, "replace")
        if kind != _ARRAY:
            raise self.fail(f"metadata {key!r} has unknown type {kind}")
        item, count = self.number("I", key), self.number("Q", key)
        if item == _STRING:
            if count > (self.size - self.at) // 8:
                raise self.fail(f"cut short: metadata {key!r} should hold {count} strings")
            return [self.text(key, "replace") for _ in range(count)]
        if item not in _SCALARS:
            raise self.fail(f"metadata {key!r} is an array of unsupported type {item}")
        dtype = np.dtype("<" + _SCALARS[item] if item != 7 else "?")
        return np.frombuffer(self.bytes(count * dtype.itemsize, key), dtype)


def _read_fields(cursor: _Cursor) -> tuple[dict[str, Value], int]:
    magic = cursor.bytes(4, "the magic number")
    if magic != b"GGUF":
        raise cursor.fail(f"not a GGUF file: it should begin with b'GGUF', came {magic!r}")
    version = cursor.number("I", "the version")
    if version not in (2, 3):
        raise cursor.fail(
            f"GGUF version {version} (0x{version:08x}) is not supported; versions 2 and 3 are, in little-endian order"
        )
    tensor_count, field_count = cursor.number("Q", "counts"), cursor.number("Q", "counts")
    fields: dict[str, Value] = {}
    for _ in range(field_count):
        key = cursor.text("a metadata key")
        if key in fields:
            raise cursor.fail(f"metadata {key!r} occurs twice")
        fields[key] = cursor.value(key)
    if fields.get("split.count", 1) not in (0, 1):
        raise cursor.fail(f"one of {fields['split.count']} parts; join them with llama.cpp's gguf-split --merge")
    return fields, tensor_count


def _read_tensors(cursor: _Cursor, count: int, alignment: int) -> dict[str, GgufTensor]:
    found: list[tuple[str, tuple[int, ...], int, int]] = []
    for _ in range(count):
        name = cursor.text("a tensor name")
        dimensions = cursor.number("I", name)
        if dimensions > _MAX_DIMENSIONS:
            raise cursor.fail(f"tensor {name!r} has {dimensions} dimensions, at most {_MAX_DIMENSIONS} are allowed")
        shape = tuple(cursor.number("Q", name) for _ in range(dimensions))[::-1]
        found.append((name, shape, cursor.number("I", name), cursor.number("Q", name)))
    base = -(-cursor.at // alignment) * alignment
    tensors: dict[str, GgufTensor] = {}
    for name, shape, code, offset in found:
        if name in tensors:
            raise cursor.fail(f"tensor {name!r} occurs twice")
        tensors[name] = _place(cursor, name, shape, code, base + offset)
    return tensors


def _place(cursor: _Cursor, name: str, shape: tuple[int, ...], code: int, start: int) -> GgufTensor:
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    try:
        kind = GGMLQuantizationType(code)
    except ValueError as error:
        raise cursor.fail(f"tensor {name!r} has unknown ggml type {code}") from error
    if 0 in shape:
        raise cursor.fail(f"tensor {name!r} of shape {shape} is empty")
    block, block_bytes = GGML_QUANT_SIZES[kind]
    if (shape[-1] if shape else 1) % block:
        raise cursor.fail(f"tensor {name!r} of shape {shape} does not consist of whole {kind.name} blocks of {block}")
    stop = start + math.prod(shape) // block * block_bytes
    if stop > cursor.size:
        raise cursor.fail(
            f"cut short: tensor {name!r} ({kind.name}, shape {shape}) should end at byte {stop}, "
            f"the file has {cursor.size}"
        )
    return GgufTensor(kind.name, shape, start, stop)
