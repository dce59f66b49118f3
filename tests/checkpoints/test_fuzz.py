"""Damaged files raise this library's errors or load; nothing else ever comes out."""

import functools
import tempfile
import warnings
from pathlib import Path

import jax.numpy as jnp
import pytest
from checkpoints import toy_tokenizers, toys
from hypothesis import given
from hypothesis import strategies as st

from specdec.checkpoints import load_tokenizer, locate, open_weights, read_config
from specdec.errors import SpecdecError
from specdec.targets.loading import load_params


@functools.cache
def originals() -> dict[str, bytes]:
    """A small model in every layout; the tokenizer's words are left out of the GGUF of the weights."""
    config = toys.config(hidden_size=32, head_dim=8, intermediate_size=32, num_hidden_layers=1, vocab_size=8)
    values = toys.tensors(config)
    with tempfile.TemporaryDirectory() as name:
        folder = toys.write_folder(Path(name), config, values)
        toy_tokenizers.write_folder(folder, toy_tokenizers.byte_level())
        toys.write_gguf(folder / "plain.gguf", config, values, kind="Q4_1")
        few = {"model.norm.weight": values["model.norm.weight"]}
        fill = toy_tokenizers.gguf_metadata(toy_tokenizers.byte_level(), pre="qwen2")
        toys.write_gguf(folder / "words.gguf", config, few, fill=fill)
        return {path.name: path.read_bytes() for path in folder.iterdir()}


def damage(content: bytes, data: st.DataObject) -> bytes:
    # Headers are where damage is interesting; weights are only numbers.
    limit = data.draw(st.sampled_from([64, 2000, len(content)]))
    edited = bytearray(content)
    for _ in range(data.draw(st.integers(0, 4))):
        edited[data.draw(st.integers(0, min(limit, len(content)) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del edited[data.draw(st.integers(0, len(edited))) :]
    return bytes(edited)


def use(path: Path, *, weights: bool = True, words: bool = True) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # unused tensors, heads that differ
        try:
            files = locate(str(path))
            if weights:
                load_params(read_config(files), open_weights(files), jnp.float32)
        except SpecdecError as error:
            assert len(str(error)) > 20
        if not words:
            return
        try:
            tokenizer = load_tokenizer(locate(str(path)))
            tokenizer.decode(tokenizer.encode("the fox <s> 🙂 2024"))
            tokenizer.encode_chat("the fox")
        except SpecdecError as error:
            assert len(str(error)) > 20


@pytest.mark.parametrize("damaged", ["model.safetensors", "config.json"])
@given(data=st.data())
def test_damaged_folder(damaged: str, data: st.DataObject):
    with tempfile.TemporaryDirectory() as name:
        for file in ("model.safetensors", "config.json"):
            content = originals()[file]
            Path(name, file).write_bytes(damage(content, data) if file == damaged else content)
        use(Path(name), words=False)


@pytest.mark.parametrize("damaged", ["tokenizer.json", "tokenizer_config.json"])
@given(data=st.data())
def test_damaged_tokenizer_files(damaged: str, data: st.DataObject):
    with tempfile.TemporaryDirectory() as name:
        for file in ("config.json", "tokenizer.json", "tokenizer_config.json"):
            content = originals()[file]
            Path(name, file).write_bytes(damage(content, data) if file == damaged else content)
        use(Path(name), weights=False)


@given(data=st.data())
def test_damaged_gguf_weights(data: st.DataObject):
    with tempfile.TemporaryDirectory() as name:
        Path(name, "m.gguf").write_bytes(damage(originals()["plain.gguf"], data))
        use(Path(name, "m.gguf"), words=False)


@given(data=st.data())
def test_damaged_gguf_words(data: st.DataObject):
    with tempfile.TemporaryDirectory() as name:
        Path(name, "m.gguf").write_bytes(damage(originals()["words.gguf"], data))
        use(Path(name, "m.gguf"), weights=False)
