"""A two-layer model with a byte tokenizer, written as a folder and loaded like a real one; shared by tests/cli.

Leaves out: text that means anything.
"""

import functools
import tempfile
from pathlib import Path

import numpy as np
from checkpoints import toy_tokenizers, toys

import specdec
from specdec import Model

VOCAB = 340
PROMPT = "the dog and the dog and the dog and the"


def write(folder: Path, seed: int = 0, **changes) -> Path:
    """A Hugging Face folder whose greedy output repeats itself, so that prompt lookup finds something."""
    config = toys.config(vocab_size=VOCAB, max_position_embeddings=1024, eos_token_id=VOCAB - 1, **changes)
    values = toys.tensors(config, seed)
    scale = {
        name: 0.2 for name, value in values.items() if value.ndim == 2 and "embed" not in name and "head" not in name
    }
    values = {name: (value * scale.get(name, 1.0)).astype(np.float32) for name, value in values.items()}
    values = {name: np.ones_like(value) if value.ndim == 1 else value for name, value in values.items()}
    toys.write_folder(folder, config, values)
    toy_tokenizers.write_folder(folder, toy_tokenizers.byte_level(), config_template=toy_tokenizers.TEMPLATE)
    return folder


@functools.cache
def model(seed: int = 0) -> Model:
    with tempfile.TemporaryDirectory() as folder:
        loaded = specdec.load(write(Path(folder), seed), progress=False)
    return Model("small", loaded.target, loaded.params, loaded.tokenizer, loaded.stop_ids)


def load(name: str, *, dtype: str | None, platform: str | None) -> Model:
    """Stands in for the command's loader: "small" and "other" are two models of one vocabulary."""
    return model({"small": 0, "other": 1}[name])
