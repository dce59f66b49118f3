"""Models from a hub repository, through huggingface_hub and its own cache.

Leaves out: aliases and local files (`locate.py`).
"""

from __future__ import annotations

from pathlib import Path

from specdec.errors import FetchError

# Pickled weights and other frameworks' copies of the weights are never needed.
_PATTERNS = ["*.safetensors", "*.json", "*.jinja", "tokenizer.model", "merges.txt", "vocab.txt"]


def fetch_repository(name: str, *, progress: bool = True) -> Path:
    """The local folder of a hub repository, downloaded on first use.

    Args:
      name: `owner/name`.
      progress: let huggingface_hub draw its progress bars.

    Returns:
      The snapshot's folder in the hub's cache (`HF_HOME`).

    Raises:
      FetchError: offline and not cached, no such repository, or no access to it.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    quiet = not progress and not are_progress_bars_disabled()
    if quiet:
        disable_progress_bars()
    try:
        return Path(snapshot_download(name, allow_patterns=_PATTERNS))
    except KeyboardInterrupt as error:
        raise FetchError(f"Fetching {name} was interrupted. Run it again; what has arrived is kept.") from error
    except Exception as error:  # the hub's client, its HTTP library and the disk all raise their own
        raise FetchError(
            f"{name}: could not be fetched from the model hub ({type(error).__name__}: "
            f"{str(error)[:300]}). Check the "
            "name, the network and, for gated models, HF_TOKEN; or give a local folder or GGUF file."
        ) from error
    finally:
        if quiet:
            enable_progress_bars()
