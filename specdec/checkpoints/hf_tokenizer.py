"""Loading a tokenizer from a Hugging Face folder.

`tokenizer.json` is taken as it is, through transformers' generic fast tokenizer. Classes named in
`tokenizer_config.json` are not consulted: some of them rebuild the pipeline and change the ids.
Leaves out: sentencepiece `tokenizer.model` files without a `tokenizer.json`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from specdec.checkpoints.tokenizer import Tokenizer
from specdec.errors import CheckpointError

TOKENIZER = "tokenizer.json"
TEMPLATE = "chat_template.jinja"
SETTINGS = "tokenizer_config.json"


def load_folder(folder: Path) -> Tokenizer:
    """Tokenizer of a Hugging Face folder.

    Args:
      folder: holds `tokenizer.json`, and perhaps `tokenizer_config.json` and `chat_template.jinja`.

    Returns:
      The tokenizer; the template comes from `chat_template.jinja` if it is there, else from the config.

    Raises:
      CheckpointError: `tokenizer.json` is missing, or a file is damaged.
    """
    if not (folder / TOKENIZER).is_file():
        raise CheckpointError(
            f"{folder / TOKENIZER}: is missing. Slow tokenizers (tokenizer.model, vocab.txt) are not "
            "supported; save the model's fast tokenizer there."
        )
    from transformers import PreTrainedTokenizerFast

    with damage_reported(folder):
        inner = PreTrainedTokenizerFast.from_pretrained(str(folder), local_files_only=True)
    return Tokenizer(inner, template_source=_template_source(folder))


@contextlib.contextmanager
def damage_reported(path: Path) -> Iterator[None]:
    """Turn whatever a tokenizer library raises on bad input into a CheckpointError that names the path."""
    try:
        yield
    except CheckpointError:
        raise
    except BaseException as error:
        # The Rust library reports some bad input as a panic, which is no Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise CheckpointError(f"{path}: its tokenizer cannot be loaded ({error!r:.300}). Download it again.") from error


def _template_source(folder: Path) -> str | None:
    if (folder / TEMPLATE).is_file():
        return TEMPLATE
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if json.loads((folder / SETTINGS).read_bytes()).get("chat_template"):
            return SETTINGS
    return "tokenizer files"
