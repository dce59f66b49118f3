"""`Tokenizer`: the one place where text becomes ids and ids become text.

Every policy, plain decoding included, goes through these methods, so all of them see the same prompt.
Leaves out: loading (`hf_tokenizer.py`, `gguf_tokenizer.py`) and decoding piece by piece (`detokenize.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from specdec.errors import SettingsError, TemplateError


class Tokenizer:
    """A fast tokenizer of transformers with a chat template.

    Args:
      inner: a `transformers.PreTrainedTokenizerFast`.
      template_source: the file that the chat template came from, for messages; None when there is none.
      eos_ids: end-of-turn ids beyond the tokenizer's own `eos_token`.
    """

    def __init__(self, inner: Any, *, template_source: str | None = None, eos_ids: Iterable[int] = ()):
        self._inner = inner
        self._backend = inner.backend_tokenizer
        # Limits stored with a tokenizer belong to its training and would silently cut or pad a prompt.
        self._backend.no_truncation()
        self._backend.no_padding()
        self._template_source = template_source if inner.chat_template else None
        self._bos = inner.bos_token_id
        self._adds_bos = self._bos is not None and self._backend.encode("").ids[:1] == [self._bos]
        own = () if inner.eos_token_id is None else (inner.eos_token_id,)
        self._eos = tuple(sorted({*own, *eos_ids}))
        vocabulary = self._backend.get_vocab(with_added_tokens=True)
        self._size = max(vocabulary.values(), default=-1) + 1

    @property
    def size(self) -> int:
        """One more than the largest id that has a text; ids from here on must never be produced."""
        return self._size

    @property
    def bos_id(self) -> int | None:
        """Beginning-of-sequence id, or None."""
        return self._bos

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """The tokenizer's own end-of-turn ids, ascending."""
        return self._eos

    @property
    def has_template(self) -> bool:
        """Whether `encode_chat` can be used."""
        return bool(self._inner.chat_template)

    @property
    def template_source(self) -> str | None:
        """The file that the chat template came from, or None."""
        return self._template_source

    @property
    def backend(self) -> Any:
        """The underlying `tokenizers.Tokenizer`."""
        return self._backend

    def encode(self, text: str) -> list[int]:
        """Ids of a raw prompt.

        Args:
          text: any text; names of special tokens in it become those tokens.

        Returns:
          Its ids, with exactly one beginning-of-sequence id in front if this tokenizer adds one.

        Raises:
          SettingsError: the text is not valid Unicode.
        """
        return self._ids(text, add_special=True)

    def encode_chat(self, messages: str | Sequence[dict[str, Any]], **template_kwargs: Any) -> list[int]:
        """Ids of a conversation, rendered by the model's chat template and ready for the reply.

        Args:
          messages: the turns as `{"role": ..., "content": ...}`, or a string for a single user turn.
          **template_kwargs: passed on to the template (`tools`, `enable_thinking`,
            `add_generation_prompt`, ...).

        Returns:
          The ids of the rendered text. The template alone decides about special tokens: none are added again,
          and a beginning-of-sequence id at the start appears once.

        Raises:
          TemplateError: there is no chat template, or it refused the messages.
          SettingsError: the messages are not a list of roles and contents, or not valid Unicode.
        """
        return self._ids(self.render_chat(messages, **template_kwargs), add_special=False)

    def render_chat(self, messages: str | Sequence[dict[str, Any]], **template_kwargs: Any) -> str:
        """The text that `encode_chat` turns into ids; arguments and errors are the same."""
        if not self.has_template:
            raise TemplateError(
                "A chat was asked for, but this model has no chat template (neither chat_template.jinja nor "
                "chat_template in tokenizer_config.json or GGUF metadata). Give a raw prompt instead."
            )
        turns: list[Any] = [{"role": "user", "content": messages}] if isinstance(messages, str) else [*messages]
        if not turns or not all(isinstance(turn, dict) and "role" in turn for turn in turns):
            raise SettingsError(
                "messages should be a string or a non-empty list of dicts with 'role' and "
                f"'content', came {turns!r:.120}."
            )
        template_kwargs.setdefault("add_generation_prompt", not template_kwargs.get("continue_final_message", False))
        try:
            return self._inner.apply_chat_template(turns, tokenize=False, **template_kwargs)
        except ImportError as error:
            raise TemplateError(f"Chat templates need jinja2: pip install jinja2 ({error}).") from error
        except Exception as error:  # a template is a program: it may fail in any way
            raise TemplateError(
                f"The chat template ({self._template_source}) failed on these messages: {error}. "
                "Check their roles and order, and the template's keyword arguments."
            ) from error

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """Text of ids, spaces as they are.

        Args:
          ids: ids below `size`; larger ones have no text.
          skip_special_tokens: leave special tokens out of the text.

        Returns:
          The text; bytes that form no character become U+FFFD.
        """
        return self._backend.decode([int(item) for item in ids], skip_special_tokens=skip_special_tokens)

    def _ids(self, text: str, *, add_special: bool) -> list[int]:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise SettingsError(
                f"The prompt is not valid Unicode: {error.reason} at character {error.start}. Repair the text."
            ) from error
        ids = self._backend.encode(text, add_special_tokens=add_special).ids
        start = 0
        # The prompt or the template may already spell out the id that belongs in front.
        while self._adds_bos and ids[start : start + 2] == [self._bos, self._bos]:
            start += 1
        return ids[start:]
