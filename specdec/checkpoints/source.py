"""`TensorSource`: the little that a loader needs of a weight file.

Leaves out: the formats themselves (`safetensors.py`, `gguf.py`) and choosing between them (`opening.py`).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np


class TensorSource(Protocol):
    """Named tensors that are read one at a time, under Hugging Face names and in Hugging Face row order."""

    def names(self) -> frozenset[str]:
        """Every tensor that can be read."""
        ...

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor without reading its values."""
        ...

    def read(self, name: str) -> np.ndarray:
        """Values of a tensor as float32, float16 or bfloat16 (`ml_dtypes`), not to be written to."""
        ...

    def origin(self, name: str) -> str:
        """Where a tensor lies, for messages: file and the name used there. Also answers for unknown names."""
        ...
