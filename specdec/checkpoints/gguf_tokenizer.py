"""A fast tokenizer built from GGUF metadata, for byte-level BPE vocabularies.

Leaves out: sentencepiece (`llama`), wordpiece (`bert`) and other vocabularies, which are refused by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specdec.checkpoints import hf_tokenizer
from specdec.checkpoints.gguf_config import token_ids
from specdec.checkpoints.gguf_file import GgufFile
from specdec.checkpoints.pretokenizers import SPLITTERS, Splitter
from specdec.checkpoints.tokenizer import Tokenizer
from specdec.errors import CheckpointError

_PREFIX = "tokenizer.ggml."
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED = 1, 2, 3, 4, 5


def load(file: GgufFile, folder: Path) -> Tokenizer:
    """Tokenizer of a GGUF file: a `tokenizer.json` beside it if there is one, else its metadata.

    Args:
      file: the opened file.
      folder: where to look for `tokenizer.json`.

    Returns:
      The tokenizer; its `eos_ids` include the file's end-of-turn ids.

    Raises:
      CheckpointError: the vocabulary is of another kind, incomplete, or does not fit the file beside it.
    """
    if (folder / hf_tokenizer.TOKENIZER).is_file():
        tokenizer = hf_tokenizer.load_folder(folder)
        known = len(_strings(file, "tokens", required=False))
        if known and tokenizer.size > known:
            raise CheckpointError(
                f"{folder / hf_tokenizer.TOKENIZER}: has {tokenizer.size} tokens, but "
                f"{file.path.name} knows {known}. They do not belong together; move one of them."
            )
        return tokenizer
    return _from_metadata(file)


def _from_metadata(file: GgufFile) -> Tokenizer:
    model = file.fields.get(_PREFIX + "model")
    if model != "gpt2":
        raise CheckpointError(
            f"{file.path}: its tokenizer is of kind {model!r:.80}; only byte-level BPE ('gpt2') can be "
            "built from GGUF metadata. Put the model's tokenizer.json into the same folder."
        )
    name = file.fields.get(_PREFIX + "pre", "default")
    splitter = SPLITTERS.get(name) if isinstance(name, str) else None
    if splitter is None:
        raise CheckpointError(
            f"{file.path}: {_PREFIX}pre is {name!r:.80}; supported are {', '.join(SPLITTERS)}. Put "
            "the model's tokenizer.json into the same folder."
        )
    tokens = _strings(file, "tokens")
    kinds = _kinds(file, len(tokens))
    with hf_tokenizer.damage_reported(file.path):
        backend = _backend(file, tokens, kinds, splitter)
        return _wrapped(file, tokens, backend)


def _backend(file: GgufFile, tokens: list[str], kinds: list[int], splitter: Splitter) -> Any:
    from tokenizers import AddedToken, decoders, models, processors
    from tokenizers import Tokenizer as Fast

    vocabulary = {token: index for index, token in enumerate(tokens) if kinds[index] != _UNUSED}
    if len(vocabulary) != sum(kind != _UNUSED for kind in kinds):
        raise CheckpointError(f"{file.path}: {_PREFIX}tokens names a token twice. Download the file again.")
    merges = _merges(file, vocabulary)
    backend = Fast(models.BPE(vocabulary, merges, ignore_merges=splitter.ignore_merges))
    normaliser, splitting = splitter.build()
    if normaliser is not None:
        backend.normalizer = normaliser
    backend.pre_tokenizer = splitting
    backend.decoder = decoders.ByteLevel()
    backend.add_tokens(
        [
            AddedToken(token, special=kinds[index] != _USER_DEFINED, normalized=False)
            for index, token in enumerate(tokens)
            if kinds[index] in (_UNKNOWN, _CONTROL, _USER_DEFINED)
        ]
    )
    bos = token_ids(file, "bos")
    adds_bos = file.fields.get(_PREFIX + "add_bos_token", splitter.adds_bos)
    if adds_bos and bos and bos[0] < len(tokens):
        pieces = [(tokens[bos[0]], bos[0])]
        backend.post_processor = processors.TemplateProcessing(
            single=[tokens[bos[0]], "$A"], pair=[tokens[bos[0]], "$A", "$B"], special_tokens=pieces
        )
    else:
        backend.post_processor = processors.ByteLevel(trim_offsets=False)
    return backend


def _wrapped(file: GgufFile, tokens: list[str], backend: Any) -> Tokenizer:
    from transformers import PreTrainedTokenizerFast

    names = {}
    for role, key in (("bos_token", "bos"), ("eos_token", "eos")):
        found = token_ids(file, key)
        # None must be said: the class would otherwise invent <s> and </s>.
        names[role] = tokens[found[0]] if found and found[0] < len(tokens) else None
    template = file.fields.get("tokenizer.chat_template")
    inner = PreTrainedTokenizerFast(
        tokenizer_object=backend, chat_template=template if isinstance(template, str) else None, **names
    )
    return Tokenizer(inner, template_source="GGUF metadata", eos_ids=token_ids(file, "eos", "eot", "eom"))


def _strings(file: GgufFile, key: str, *, required: bool = True) -> list[str]:
    value = file.fields.get(_PREFIX + key)
    if isinstance(value, list):
        return value
    if required:
        raise CheckpointError(f"{file.path}: metadata {_PREFIX}{key} should be a list of strings, came {value!r:.80}.")
    return []


def _kinds(file: GgufFile, count: int) -> list[int]:
    value = file.fields.get(_PREFIX + "token_type")
    if value is None:
        return [_NORMAL] * count
    kinds = [] if isinstance(value, int | float | str) else [int(kind) for kind in value if not isinstance(kind, str)]
    if len(kinds) != count:
        raise CheckpointError(
            f"{file.path}: {_PREFIX}token_type should hold {count} numbers, one per token, came {len(kinds)}."
        )
    return kinds


def _merges(file: GgufFile, vocabulary: dict[str, int]) -> list[tuple[str, str]]:
    merges = []
    for line in _strings(file, "merges"):
        # A token may itself contain a space only as its first character's stand-in, so the first space
        # divides.
        left, _, right = line.partition(" ")
        if left not in vocabulary or right not in vocabulary or left + right not in vocabulary:
            raise CheckpointError(
                f"{file.path}: {_PREFIX}merges holds {line!r:.80}, whose parts or result are no tokens. "
                "Download the file again."
            )
        merges.append((left, right))
    return merges
