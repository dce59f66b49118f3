"""How text is split before byte-level BPE, by the name GGUF files give to the rule.

References:
  ggml-org/llama.cpp, `tokenizer.ggml.pre` values; the patterns are those published in the `tokenizer.json` of
  SmolLM2, GPT-2, Llama 3 and Qwen2.

Leaves out: rules of other models; a `tokenizer.json` beside the GGUF file serves for those.
"""

from __future__ import annotations

import dataclasses
from typing import Any

_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


@dataclasses.dataclass(frozen=True)
class Splitter:
    """One splitting rule.

    Args:
      pattern: regular expression whose matches are the pieces, or None for GPT-2's built-in one.
      digits_alone: split every digit off first.
      compose: normalise to NFC before anything else.
      ignore_merges: take a piece that is a token as it stands, whatever the merges say.
      adds_bos: whether a beginning-of-sequence id is added when the file does not say.
    """

    pattern: str | None = None
    digits_alone: bool = False
    compose: bool = False
    ignore_merges: bool = False
    adds_bos: bool = False

    def build(self) -> tuple[Any, Any]:
        """The normaliser (or None) and the pre-tokeniser of the `tokenizers` library."""
        from tokenizers import Regex, normalizers, pre_tokenizers

        steps: list[Any] = [pre_tokenizers.Digits(individual_digits=True)] if self.digits_alone else []
        if self.pattern is not None:
            steps.append(pre_tokenizers.Split(Regex(self.pattern), behavior="isolated"))
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=self.pattern is None))
        return normalizers.NFC() if self.compose else None, pre_tokenizers.Sequence(steps)


_LLAMA3 = Splitter(_WORDS + r"\p{N}{1,3}" + _REST, ignore_merges=True, adds_bos=True)
SPLITTERS = {
    "smollm": Splitter(digits_alone=True),
    "gpt-2": Splitter(),
    "default": Splitter(),
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "qwen2": Splitter(_WORDS + r"\p{N}" + _REST, compose=True),
}
