"""`StreamDecoder`: text as it grows, never half a character.

The pieces joined equal `Tokenizer.decode` of all ids, however the ids are divided. A call costs time in
the ids it brings, not in the text so far.
Leaves out: searching the text for stop strings (`specdec.decoding`).
"""

from __future__ import annotations

import codecs
import functools
import json
import re
from collections.abc import Iterable
from typing import Any

from specdec.checkpoints.tokenizer import Tokenizer

_BYTE_TOKEN = re.compile(r"<0x[0-9A-Fa-f]{2}>")


class StreamDecoder:
    """Incremental counterpart of `Tokenizer.decode`.

    Args:
      tokenizer: the tokenizer that the ids belong to.
      skip_special_tokens: leave special tokens out of the text.
    """

    def __init__(self, tokenizer: Tokenizer, *, skip_special_tokens: bool = False):
        backend = tokenizer.backend
        added = backend.get_added_tokens_decoder()
        self._skipped = {token.content for token in added.values() if token.special} if skip_special_tokens else set()
        self._backend = backend
        steps = _decoder_steps(backend)
        self._state = _Bytes() if steps == ["ByteLevel"] else _Window(backend, steps)

    def push(self, ids: Iterable[int]) -> str:
        """Take more ids.

        Args:
          ids: the ids that follow those of earlier calls; any number, none included.

        Returns:
          The text that is now certain; it may be empty.
        """
        known = []
        for item in ids:
            token = self._backend.id_to_token(int(item))
            if token is not None and token not in self._skipped:
                known.append((int(item), token))
        return self._state.push(known)

    def flush(self) -> str:
        """End the text: what was held back, an unfinished character as U+FFFD; a second call returns ""."""
        return self._state.flush()


class _Bytes:
    """Byte-level vocabularies: every token is a run of bytes, so UTF-8's own incremental decoder is exact."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, tokens: list[tuple[int, str]]) -> str:
        return self._decoder.decode(b"".join(_token_bytes(token) for _, token in tokens))

    def flush(self) -> str:
        return self._decoder.decode(b"", final=True)


class _Window:
    """Other vocabularies: decode new ids behind the last emitted one, which gives them their context."""

    def __init__(self, backend: Any, steps: list[str]):
        self._backend = backend
        self._byte_tokens = "ByteFallback" in steps
        self._byte_level = "ByteLevel" in steps
        self._anchor: list[int] = []
        self._held: list[tuple[int, str]] = []

    def push(self, tokens: list[tuple[int, str]]) -> str:
        self._held += tokens
        ready = len(self._held)
        # A run of byte tokens is one text or all U+FFFD, which only its end decides.
        while self._byte_tokens and ready and _BYTE_TOKEN.fullmatch(self._held[ready - 1][1]):
            ready -= 1
        text = self._text(ready)
        if self._byte_level and text.endswith("\ufffd"):
            return ""
        return self._emit(text, ready)

    def flush(self) -> str:
        return self._emit(self._text(len(self._held)), len(self._held))

    def _text(self, ready: int) -> str:
        if not ready:
            return ""
        ids = [item for item, _ in self._held[:ready]]
        whole = self._backend.decode(self._anchor + ids, skip_special_tokens=False)
        return whole[len(self._backend.decode(self._anchor, skip_special_tokens=False)) :]

    def _emit(self, text: str, ready: int) -> str:
        if ready:
            self._anchor = [self._held[ready - 1][0]]
            del self._held[:ready]
        return text


def _decoder_steps(backend: Any) -> list[str]:
    if backend.decoder is None:
        return []
    value = json.loads(backend.decoder.__getstate__())
    return [step["type"] for step in value.get("decoders", [value])]


@functools.cache
def _byte_of_character() -> dict[str, int]:
    """GPT-2's stand-ins: printable Latin-1 bytes stand for themselves, others for U+0100 and following."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    table.update({chr(0x100 + index): byte for index, byte in enumerate(others)})
    return table


@functools.lru_cache(maxsize=1 << 16)
def _token_bytes(token: str) -> bytes:
    table = _byte_of_character()
    if all(character in table for character in token):
        return bytes(table[character] for character in token)
    # An added token written in ordinary characters.
    return token.encode("utf-8")
