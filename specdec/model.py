"""A loaded model: target, weights and tokenizer in one immutable value.

Leaves out: how files are found and read (`specdec.checkpoints`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from specdec import backends, checkpoints
from specdec.errors import SettingsError
from specdec.targets import Decoder, TargetParams
from specdec.targets.loading import load_params

Message = dict[str, Any]
Prompt = str | Sequence[int] | Sequence[Message]


@dataclasses.dataclass(frozen=True, eq=False)
class Model:
    """What `generate`, `stream` and `compare` decode with; safe to share between threads.

    Args:
      name: as the user gave it.
      target: the architecture.
      params: its weights.
      tokenizer: None for models without text (then prompts are ids).
      stop_ids: ids that end a turn: the union of the model's, the generation config's and the tokenizer's.
    """

    name: str
    target: Decoder
    params: TargetParams
    tokenizer: checkpoints.Tokenizer | None = None
    stop_ids: tuple[int, ...] = ()

    def encode(self, prompt: Prompt, *, chat: bool | None = None) -> tuple[int, ...]:
        """Ids of a prompt: the one path from text to ids, whatever the strategy.

        Args:
          prompt: text, chat messages (dicts with `role` and `content`), or ids.
          chat: whether a text is a user's turn for the chat template; None means "if there is a template".

        Raises:
          SettingsError: empty prompt, ids outside the vocabulary, or text without a tokenizer.
          TemplateError: a chat was asked for and the model has no template.
        """
        ids = self._ids(prompt, chat)
        if not ids:
            raise SettingsError("the prompt is empty; give at least one token (a BOS id, for example).")
        wrong = [i for i in ids if not 0 <= i < self.target.config.vocab_size]
        if wrong:
            raise SettingsError(
                f"prompt id {wrong[0]} is outside the vocabulary 0..{self.target.config.vocab_size - 1}."
            )
        return ids

    def _ids(self, prompt: Prompt, chat: bool | None) -> tuple[int, ...]:
        if not isinstance(prompt, str) and all(not isinstance(item, dict) for item in prompt):
            return tuple(int(cast(int, item)) for item in prompt)
        if self.tokenizer is None:
            raise SettingsError(f"model {self.name!r} has no tokenizer; give the prompt as ids.")
        if not isinstance(prompt, str):
            return tuple(self.tokenizer.encode_chat(cast(Sequence[Message], prompt)))
        if chat is None:
            chat = self.tokenizer.has_template
        return tuple(self.tokenizer.encode_chat(prompt) if chat else self.tokenizer.encode(prompt))

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, special tokens left out; empty without a tokenizer."""
        return "" if self.tokenizer is None else self.tokenizer.decode(list(ids), skip_special_tokens=True)


def load(
    model: str | Path,
    *,
    dtype: str | None = None,
    platform: str | None = None,
    cache: Path | None = None,
    progress: bool = True,
) -> Model:
    """Loads a model, fetching it on first use.

    Args:
      model: an alias (`specdec list` shows them), a folder in Hugging Face layout, a `.gguf` file, or a hub id.
      dtype: of weights and activations; None takes the backend's choice.
      platform: "cpu", "cuda" or "metal"; None takes what JAX runs on.
      cache: where fetched models live; None means `SPECDEC_CACHE` or the platform's cache folder.
      progress: show progress bars.

    Raises:
      FetchError, ConfigError, CheckpointError: each says what was expected, what came and what to do.
    """
    files = checkpoints.locate(str(model), cache=cache, progress=progress)
    config = checkpoints.read_config(files)
    tokenizer = checkpoints.load_tokenizer(files)
    backend = backends.select(platform, dtype=dtype)
    with backend.scope():
        params = load_params(config, checkpoints.open_weights(files), backend.dtype)
    target = Decoder(config, backend, vocab_limit=tokenizer.size)
    return Model(str(model), target, params, tokenizer, checkpoints.stop_ids(config, tokenizer))
