"""From ids to text as they come: whole characters only, stop strings found wherever they fall.

Leaves out: detokenising itself (`specdec.checkpoints.StreamDecoder`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from specdec.checkpoints import StreamDecoder, Tokenizer


@dataclasses.dataclass(frozen=True)
class StopHit:
    """A stop string was completed.

    Args:
      string: which.  tokens: the fewest ids whose text holds it.
    """

    string: str
    tokens: int


class TextCutter:
    """Text of one row, id by id; knows where the earliest stop string completes.

    The text never contains a stop string nor anything after it, and `push` never returns what could still turn out
    to be the beginning of one.

    Args:
      tokenizer: None gives empty text.
      stop_strings: strings that end the text.
    """

    def __init__(self, tokenizer: Tokenizer | None, stop_strings: Sequence[str] = ()):
        self._decoder = None if tokenizer is None else StreamDecoder(tokenizer, skip_special_tokens=True)
        self.stop_strings = tuple(stop_strings)
        self._held = ""
        self._tokens = 0
        self.hit: StopHit | None = None

    def push(self, ids: Sequence[int]) -> str:
        """Takes more ids; returns text that is certain. After a hit nothing is taken any more."""
        released = []
        for item in ids:
            if self.hit is not None:
                break
            self._tokens += 1
            if self._decoder is not None:
                released.append(self._take(self._decoder.push([item])))
        return "".join(released)

    def flush(self) -> str:
        """Ends the text: what was held back, an unfinished character included."""
        if self._decoder is None or self.hit is not None:
            return ""
        text = self._take(self._decoder.flush())
        text, self._held = text + self._held, ""
        return text

    def _take(self, piece: str) -> str:
        self._held += piece
        places = [(self._held.find(stop), stop) for stop in self.stop_strings if stop in self._held]
        if places:
            at, stop = min(places, key=lambda place: (place[0] + len(place[1]), place[0]))
            self.hit = StopHit(stop, self._tokens)
            text, self._held = self._held[:at], ""
            return text
        keep = max((_overlap(self._held, stop) for stop in self.stop_strings), default=0)
        cut = len(self._held) - keep
        text, self._held = self._held[:cut], self._held[cut:]
        return text


def _overlap(text: str, stop: str) -> int:
    """Length of the longest suffix of `text` that begins `stop`."""
    for size in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:size]):
            return size
    return 0
