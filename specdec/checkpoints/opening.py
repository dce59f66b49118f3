"""One door to a model's configuration, weights and tokenizer, whatever the layout of its files.

Leaves out: finding the files (`locate.py`) and placing the weights in JAX arrays (`specdec.targets.loading`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdec.checkpoints.files import ModelFiles
from specdec.checkpoints.source import TensorSource
from specdec.checkpoints.tokenizer import Tokenizer

if TYPE_CHECKING:  # finding a file should not start JAX
    from specdec.targets.config import TargetConfig


def read_config(files: ModelFiles) -> TargetConfig:
    """Configuration of a target.

    Args:
      files: where the model lies.

    Returns:
      The configuration.

    Raises:
      ConfigError: a key is missing or has a value that is not supported; it is named.
      CheckpointError: a GGUF file is damaged.
    """
    if files.gguf is not None:
        from specdec.checkpoints.gguf_config import read_gguf_config
        from specdec.checkpoints.gguf_file import GgufFile

        return read_gguf_config(GgufFile(files.gguf))
    from specdec.checkpoints.hf_config import read_hf_config

    return read_hf_config(files.folder)


def open_weights(files: ModelFiles) -> TensorSource:
    """Weights of a target, checked but not read.

    Args:
      files: where the model lies.

    Returns:
      A source of named tensors.

    Raises:
      CheckpointError: a weight file is missing or damaged; it is named.
      ConfigError: the configuration that the layout needs is not usable.
    """
    if files.gguf is not None:
        from specdec.checkpoints.gguf import GgufSource
        from specdec.checkpoints.gguf_config import read_gguf_config
        from specdec.checkpoints.gguf_file import GgufFile

        file = GgufFile(files.gguf)
        return GgufSource(file, read_gguf_config(file))
    from specdec.checkpoints.hf_config import float8_block
    from specdec.checkpoints.safetensors import SafetensorsSource

    return SafetensorsSource(files.folder, fp8_block=float8_block(files.folder))


def load_tokenizer(files: ModelFiles) -> Tokenizer:
    """Tokenizer of a target: files beside the weights, else the metadata of the GGUF file.

    Args:
      files: where the model lies.

    Returns:
      The tokenizer.

    Raises:
      CheckpointError: there is none, it is damaged, or its kind is not supported.
    """
    from specdec.checkpoints import hf_tokenizer

    if files.gguf is None:
        return hf_tokenizer.load_folder(files.folder)
    from specdec.checkpoints import gguf_tokenizer
    from specdec.checkpoints.gguf_file import GgufFile

    return gguf_tokenizer.load(GgufFile(files.gguf), files.folder)
