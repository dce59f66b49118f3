"""Float8 weights multiplied by their scales, so that nobody sees them unscaled.

A float8 tensor `x.weight` is stored divided by a scale; `x.weight_scale_inv` or `x.weight_scale` holds
what to multiply by (despite the `inv`): one number, one per output row, or one per block of rows and columns.

References:
  DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 3.3 (blocks of 128 x 128).

Leaves out: scales of activations and of key/value caches, which only matter when computing in float8.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from specdec.errors import CheckpointError

FLOAT8 = (np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2))
SUFFIXES = ("_scale_inv", "_scale")


def scale_name(name: str, names: frozenset[str], where: str) -> str:
    """Name of the scale that belongs to a float8 tensor.

    Args:
      name: the float8 tensor.
      names: every tensor of the checkpoint.
      where: file and name for messages.

    Returns:
      `name` with the suffix under which the scale is stored.

    Raises:
      CheckpointError: the checkpoint has no such scale.
    """
    for suffix in SUFFIXES:
        if name + suffix in names:
            return name + suffix
    raise CheckpointError(
        f"{where}: float8 weights need their scale, expected "
        f"{' or '.join(repr(name + s) for s in SUFFIXES)}, "
        "found neither. Without it the weights are wrong by a large factor; get the complete checkpoint."
    )


def dequantise(values: np.ndarray, scale: np.ndarray, block: tuple[int, int], where: str) -> np.ndarray:
    """Multiply float8 values by their scale.

    Args:
      values: `[out, in]` (or any shape, for a single scale) in float8.
      scale: one element; `[out]` or `[out, 1]`; or `[ceil(out / block[0]), ceil(in / block[1])]`.
      block: rows and columns that share one scale.
      where: file and name for messages.

    Returns:
      The real values in float32.

    Raises:
      CheckpointError: the scale has none of these shapes.
    """
    wide = values.astype(np.float32)
    factors = scale.astype(np.float32)
    if factors.size == 1:
        return wide * factors.reshape(())
    rows, columns = (*wide.shape, 1, 1)[:2]
    blocks = (-(-rows // block[0]), -(-columns // block[1]))
    if wide.ndim == 2 and factors.shape in ((rows,), (rows, 1)):
        return wide * factors.reshape(rows, 1)
    if wide.ndim == 2 and factors.shape == blocks:
        for index in range(blocks[0]):
            part = slice(index * block[0], (index + 1) * block[0])
            wide[part] *= np.repeat(factors[index], block[1])[:columns]
        return wide
    raise CheckpointError(
        f"{where}: its scale has shape {factors.shape}; expected one element, ({rows},), ({rows}, 1) or "
        f"{blocks} (blocks of {block[0]} x {block[1]}). Check weight_block_size in config.json."
    )
