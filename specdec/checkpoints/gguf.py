"""Weights of a GGUF file as a `TensorSource`: dequantised, renamed, and in Hugging Face row order.

llama.cpp rotates neighbouring channels, so its converter stores the query and key rows of llama models
interleaved; Hugging Face rotates halves. Rows are put back here. Qwen files keep the Hugging Face order.
Leaves out: the container (`gguf_file.py`), the configuration (`gguf_config.py`) and the tokenizer.
"""

from __future__ import annotations

import re

import numpy as np

from specdec.checkpoints.gguf_file import GgufFile
from specdec.checkpoints.gguf_names import hugging_face_name
from specdec.errors import CheckpointError
from specdec.targets.config import Family, TargetConfig

READABLE = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")
READABLE_K = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")
ROPE_FACTORS = "rope_freqs.weight"
_QUERY_OR_KEY = re.compile(r"model\.layers\.\d+\.self_attn\.([qk])_proj\.(weight|bias)")


class GgufSource:
    """`TensorSource` over one GGUF file.

    Args:
      file: the opened file.
      config: its configuration (`gguf_config.read_gguf_config`), which says how rows are grouped into heads.

    Raises:
      CheckpointError: a tensor has a type that cannot be dequantised here.
    """

    def __init__(self, file: GgufFile, config: TargetConfig):
        self._file = file
        self._config = config
        # The rotary factors describe the configuration, not a layer; `gguf_config` has read them.
        self._stored = {hugging_face_name(name): name for name in file.tensors if name != ROPE_FACTORS}
        for name, stored in self._stored.items():
            if file.tensors[stored].kind not in READABLE + READABLE_K:
                raise CheckpointError(
                    f"{self.origin(name)}: is stored as {file.tensors[stored].kind}; supported are "
                    f"{', '.join(READABLE + READABLE_K)}. Choose another quantisation of this model."
                )

    def names(self) -> frozenset[str]:
        """Every tensor, by its Hugging Face name where it has one."""
        return frozenset(self._stored)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor, rows first."""
        return self._file.tensors[self._known(name)].shape

    def read(self, name: str) -> np.ndarray:
        """Values of a tensor: float16 and float32 as stored, everything else in float32."""
        values = dequantise(self._file, self._known(name))
        match = _QUERY_OR_KEY.fullmatch(name)
        if match is None or self._config.family is not Family.LLAMA:
            return values
        heads = self._config.num_heads if match[1] == "q" else self._config.num_kv_heads
        return halves_from_pairs(values, heads, self.origin(name))

    def origin(self, name: str) -> str:
        """File and the tensor's name inside it."""
        return f"{self._file.path}: tensor {self._stored.get(name, name)!r}"

    def _known(self, name: str) -> str:
        if name not in self._stored:
            raise CheckpointError(f"{self.origin(name)}: there is no such tensor in this file.")
        return self._stored[name]


def dequantise(file: GgufFile, stored: str) -> np.ndarray:
    """Read one tensor of a GGUF file, quantised ones as float32."""
    tensor = file.tensors[stored]
    raw = file.raw(stored)
    if tensor.kind in ("F32", "F16"):
        return raw.view({"F32": np.float32, "F16": np.float16}[tensor.kind]).reshape(tensor.shape)
    import ml_dtypes

    if tensor.kind == "BF16":
        return raw.view(ml_dtypes.bfloat16).reshape(tensor.shape)
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    # A damaged scale may be infinite; that is data, not a fault of this program.
    with np.errstate(all="ignore"):
        rows = raw.reshape(*tensor.shape[:-1], -1)
        return dequantize(rows, GGMLQuantizationType[tensor.kind]).reshape(tensor.shape)


def halves_from_pairs(values: np.ndarray, heads: int, where: str) -> np.ndarray:
    """Reorder the rows of every head from (0, half), (1, half + 1), ... pairs to first half, second half.

    Args:
      values: `[heads * head_dim, ...]`, interleaved.
      heads: heads in these rows (key/value heads for keys).
      where: file and name for messages.

    Returns:
      The same shape in Hugging Face order.

    Raises:
      CheckpointError: the rows do not divide into heads of even size.
    """
    rows = values.shape[0] if values.ndim else 0
    if rows == 0 or rows % (2 * heads):
        raise CheckpointError(f"{where}: {rows} rows do not divide into {heads} heads of an even size.")
    pairs = values.reshape(heads, rows // heads // 2, 2, *values.shape[1:])
    return pairs.swapaxes(1, 2).reshape(values.shape)
