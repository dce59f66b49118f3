"""Streams of text: the pieces joined are the whole, and no piece holds half a character."""

from collections.abc import Iterable

import pytest
import tokenizers
from checkpoints import toy_tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models
from transformers import PreTrainedTokenizerFast

from specdec.checkpoints import StreamDecoder, Tokenizer

EMOJI = "🙂"


def wrap(backend: tokenizers.Tokenizer) -> Tokenizer:
    return Tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>"))


def word_piece() -> tokenizers.Tokenizer:
    words = ["<s>", "</s>", "[UNK]", "the", "dog", "##s", "##es", ".", "'", "s", "fox", "漢"]
    backend = tokenizers.Tokenizer(
        models.WordPiece(dict(zip(words, range(len(words)), strict=True)), unk_token="[UNK]")
    )
    backend.decoder = decoders.WordPiece()
    return backend


def nested() -> tokenizers.Tokenizer:
    """Byte-level inside a sequence: not recognised as plain byte-level, so it takes the general way."""
    backend = tokenizers.Tokenizer.from_str(toy_tokenizers.byte_level())
    backend.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Fuse()])
    return backend


TOKENIZERS = {
    "byte level": wrap(tokenizers.Tokenizer.from_str(toy_tokenizers.byte_level())),
    "byte fallback": wrap(toy_tokenizers.sentencepiece_like()),
    "word piece": wrap(word_piece()),
    "nested": wrap(nested()),
}
kinds = pytest.mark.parametrize("kind", TOKENIZERS)


def chunks(ids: list[int], sizes: Iterable[int]) -> Iterable[list[int]]:
    at = 0
    for size in sizes:
        yield ids[at : at + size]
        at += size
    yield ids[at:]


def stream(tokenizer: Tokenizer, parts: Iterable[list[int]], **settings) -> tuple[list[str], str]:
    decoder = StreamDecoder(tokenizer, **settings)
    pieces = [decoder.push(part) for part in parts]
    return pieces, decoder.flush()


@kinds
@given(data=st.data(), skip=st.booleans())
def test_case_35_pieces_joined_are_the_whole(kind: str, data, skip: bool):
    tokenizer = TOKENIZERS[kind]
    # A few ids beyond the vocabulary too: they have no text.
    ids = data.draw(st.lists(st.integers(0, tokenizer.size + 2), max_size=40))
    sizes = data.draw(st.lists(st.integers(0, 5), max_size=40))
    pieces, rest = stream(tokenizer, chunks(ids, sizes), skip_special_tokens=skip)
    assert "".join(pieces) + rest == tokenizer.decode(ids, skip_special_tokens=skip)


@pytest.mark.parametrize("kind", ["byte level", "byte fallback", "nested"])
@given(
    text=st.text(alphabet="ab 漢🙂é\ufffd👩\u200d", max_size=30),
    sizes=st.lists(st.integers(0, 4), max_size=30),
)
def test_case_35_valid_text_never_shows_a_broken_character(kind: str, text: str, sizes: list[int]):
    tokenizer = TOKENIZERS[kind]
    ids = tokenizer.encode(text)
    pieces, rest = stream(tokenizer, chunks(ids, sizes))
    whole = tokenizer.decode(ids)
    assert "".join(pieces) + rest == whole
    at = 0
    for piece in [*pieces, rest]:
        assert whole[at : at + len(piece)] == piece
        at += len(piece)
    assert whole.count("\ufffd") == text.count("\ufffd")


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 16])
def test_case_35_emoji_over_a_round_end(size: int):
    tokenizer = TOKENIZERS["byte level"]
    text = f"a{EMOJI}b漢{EMOJI}{EMOJI} 👩\u200d👩\u200d👧 \ufffd end"
    ids = tokenizer.encode(text)
    assert len(ids) > len(text)
    pieces, rest = stream(tokenizer, chunks(ids, [size] * (len(ids) // size)))
    assert "".join(pieces) == text
    assert rest == ""


@pytest.mark.parametrize("kind", ["byte level", "byte fallback"])
def test_case_35_cut_in_mid_character_is_flushed_once(kind: str):
    tokenizer = TOKENIZERS[kind]
    ids = tokenizer.encode("ab👩")[:-1]
    decoder = StreamDecoder(tokenizer)
    shown = "".join(decoder.push([item]) for item in ids)
    assert shown == "ab"
    rest = decoder.flush()
    assert set(rest) == {"\ufffd"}
    assert shown + rest == tokenizer.decode(ids)
    assert decoder.flush() == ""


def test_case_35_text_with_a_true_replacement_sign_is_not_held_back():
    tokenizer = TOKENIZERS["byte level"]
    decoder = StreamDecoder(tokenizer)
    assert "".join(decoder.push([item]) for item in tokenizer.encode("a\ufffd\ufffd")) == "a\ufffd\ufffd"


@kinds
def test_a_push_costs_the_same_at_any_length(kind: str, monkeypatch):
    tokenizer = TOKENIZERS[kind]
    decoder = StreamDecoder(tokenizer)
    longest = 0

    class Counting:
        def id_to_token(self, item):
            return tokenizer.backend.id_to_token(item)

        def decode(self, ids, **settings):
            nonlocal longest
            longest = max(longest, len(ids))
            return tokenizer.backend.decode(ids, **settings)

    decoder._backend = Counting()
    if hasattr(decoder._state, "_backend"):
        decoder._state._backend = Counting()
    ids = tokenizer.encode("the dog the fox 漢 the dogs " * 40)
    text = "".join(decoder.push([item]) for item in ids) + decoder.flush()
    assert text == tokenizer.decode(ids)
    assert longest <= 6
