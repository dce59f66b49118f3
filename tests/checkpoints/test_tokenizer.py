"""Text to ids and back: templates, special tokens, and GGUF metadata."""

import json
from pathlib import Path

import gguf
import pytest
import tokenizers
from checkpoints import toy_tokenizers, toys
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import normalizers, pre_tokenizers

from specdec.checkpoints import Tokenizer, load_tokenizer, locate
from specdec.checkpoints.hf_tokenizer import load_folder
from specdec.errors import CheckpointError, SettingsError, TemplateError

CHAT = [{"role": "user", "content": "the fox"}]
RENDERED = "<|im_start|>user\nthe fox<|im_end|>\n<|im_start|>assistant\n"
TEXTS = [
    "the dog 2024 doesn't mind",
    "🙂👍 漢字 naïve",
    "  two  spaces\n\n\ttab ",
    RENDERED,
    "",
    "e\u0301 \ufffd ½²\u00a0",
    "I'LL WE'VE 12345678,90\r\n\r\n x",
]


def load(folder: Path, *, adds_bos: bool = False, **settings) -> Tokenizer:
    return load_folder(toy_tokenizers.write_folder(folder, toy_tokenizers.byte_level(adds_bos), **settings))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Tokenizer:
    return load(tmp_path_factory.mktemp("tokenizer"))


@given(st.text())
def test_any_text_comes_back(tokenizer: Tokenizer, text: str):
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_facts(tokenizer: Tokenizer):
    assert tokenizer.size == 340
    assert (tokenizer.bos_id, tokenizer.eos_ids) == (0, (1,))
    assert tokenizer.decode([2, 3], skip_special_tokens=True) == ""
    assert tokenizer.decode([2, 3]) == "<|im_start|><|im_end|>"
    assert tokenizer.decode([339, 340, 10_000]) == tokenizer.decode([339])


def test_digits_stand_alone_and_special_tokens_are_recognised(tokenizer: Tokenizer):
    ids = tokenizer.encode("2024")
    assert [tokenizer.decode([item]) for item in ids] == list("2024")
    assert tokenizer.encode("<|im_start|>")[:1] == [2]


def test_stored_truncation_and_padding_do_not_touch_a_prompt(tmp_path: Path):
    backend = tokenizers.Tokenizer.from_str(toy_tokenizers.byte_level())
    plain = backend.encode("the dog and the fox").ids
    backend.enable_truncation(3)
    backend.enable_padding(length=64)
    folder = toy_tokenizers.write_folder(tmp_path, backend.to_str(), model_max_length=3)
    assert load_folder(folder).encode("the dog and the fox") == plain


@pytest.mark.parametrize("text", ["\ud800", "ok \udfff"])
def test_half_a_surrogate_pair_is_refused(tokenizer: Tokenizer, text: str):
    with pytest.raises(SettingsError, match="not valid Unicode"):
        tokenizer.encode(text)


@pytest.mark.parametrize(
    ("config", "jinja", "source"),
    [
        (toy_tokenizers.TEMPLATE, None, "tokenizer_config.json"),
        (None, toy_tokenizers.TEMPLATE, "chat_template.jinja"),
        ("wrong {{ one }}", toy_tokenizers.TEMPLATE, "chat_template.jinja"),
    ],
)
def test_case_34_template_is_found_in_both_places(tmp_path: Path, config, jinja, source):
    tokenizer = load(tmp_path, config_template=config, jinja_template=jinja)
    assert tokenizer.has_template
    assert tokenizer.template_source == source
    ids = tokenizer.encode_chat(CHAT)
    assert tokenizer.decode(ids) == RENDERED
    assert ids == tokenizer.encode(RENDERED)
    assert ids == tokenizer.encode_chat("the fox")
    assert [item for item in ids if item < 4] == [2, 3, 2]
    assert tokenizer.decode(tokenizer.encode_chat(CHAT, add_generation_prompt=False)) == RENDERED.removesuffix(
        "<|im_start|>assistant\n"
    )


def test_case_34_without_template_a_chat_is_refused_and_raw_prompts_work(tmp_path: Path):
    tokenizer = load(tmp_path)
    assert not tokenizer.has_template
    assert tokenizer.template_source is None
    with pytest.raises(TemplateError, match=r"chat_template\.jinja.*raw prompt"):
        tokenizer.encode_chat("the fox")
    assert tokenizer.decode(tokenizer.encode("the fox")) == "the fox"


@pytest.mark.parametrize("adds_bos", [False, True])
@pytest.mark.parametrize("template", [toy_tokenizers.TEMPLATE, toy_tokenizers.BOS_TEMPLATE])
def test_case_34_exactly_one_bos(tmp_path: Path, adds_bos: bool, template: str):
    tokenizer = load(tmp_path, adds_bos=adds_bos, config_template=template)
    raw, chat = tokenizer.encode("the fox"), tokenizer.encode_chat(CHAT)
    assert raw.count(0) == (1 if adds_bos else 0)
    assert raw[:1] == [0] or not adds_bos
    assert chat.count(0) == (1 if template == toy_tokenizers.BOS_TEMPLATE else 0)
    # The text may spell it out already.
    assert tokenizer.encode("<s>the fox").count(0) == 1


def test_case_34_ids_are_those_of_transformers(tmp_path: Path):
    from transformers import PreTrainedTokenizerFast

    tokenizer = load(tmp_path, adds_bos=True, config_template=toy_tokenizers.BOS_TEMPLATE)
    reference = PreTrainedTokenizerFast.from_pretrained(str(tmp_path))
    turns = [*CHAT, {"role": "assistant", "content": "jumps"}, {"role": "user", "content": "🙂?"}]
    expected = reference.apply_chat_template(turns, add_generation_prompt=True)["input_ids"]
    assert tokenizer.encode_chat(turns) == expected
    for text in TEXTS:
        assert tokenizer.encode(text) == reference.encode(text)


@pytest.mark.parametrize("template", ["{{ raise_exception('no such role') }}", "{% if %}", "{{ x.y.z }}"])
def test_a_failing_template_says_why(tmp_path: Path, template: str):
    tokenizer = load(tmp_path, jinja_template=template)
    with pytest.raises(TemplateError, match=r"chat_template\.jinja"):
        tokenizer.encode_chat("the fox")


@pytest.mark.parametrize("messages", [[], ["the fox"], [{"content": "the fox"}], {"role": "user"}])
def test_malformed_messages_are_refused(tmp_path: Path, messages):
    with pytest.raises(SettingsError, match="messages"):
        load(tmp_path, config_template=toy_tokenizers.TEMPLATE).encode_chat(messages)


def test_template_arguments_reach_the_template(tmp_path: Path):
    tokenizer = load(tmp_path, config_template="{{ 'on' if enable_thinking else 'off' }}")
    assert tokenizer.decode(tokenizer.encode_chat("x", enable_thinking=True)) == "on"
    assert tokenizer.decode(tokenizer.encode_chat("x")) == "off"


@pytest.mark.parametrize("content", ["", "{}", "[1, 2]", '{"model": {"type": "BPE"}}', "\xff"])
def test_damaged_tokenizer_files(tmp_path: Path, content: str):
    (tmp_path / "tokenizer.json").write_text(content, encoding="latin-1")
    with pytest.raises(CheckpointError, match=str(tmp_path.name)):
        load_folder(tmp_path)


def test_a_folder_without_fast_tokenizer_is_refused(tmp_path: Path):
    (tmp_path / "tokenizer.model").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json.*missing"):
        load_folder(tmp_path)


# GGUF metadata


def from_gguf(folder: Path, fill) -> Tokenizer:
    config = toys.config()
    return load_tokenizer(locate(str(toys.write_gguf(folder / "m.gguf", config, toys.tensors(config), fill=fill))))


LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")


def reference(pre: str) -> str:
    """The same vocabulary with the pre-tokeniser that the family's tokenizer.json holds."""
    backend = tokenizers.Tokenizer.from_str(toy_tokenizers.byte_level())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    if pre in ("gpt-2", "default"):
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    elif pre != "smollm":
        pattern = tokenizers.Regex(LLAMA3 if pre == "llama-bpe" else QWEN2)
        backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(pattern, "isolated"), byte_level])
    if pre == "qwen2":
        backend.normalizer = normalizers.NFC()
    content = json.loads(backend.to_str())
    content["model"]["ignore_merges"] = pre == "llama-bpe"
    return json.dumps(content)


@pytest.mark.parametrize("pre", ["smollm", "gpt-2", "default", "llama-bpe", "qwen2"])
def test_gguf_metadata_gives_the_ids_of_the_tokenizer_file(tmp_path: Path, pre: str):
    serialised = reference(pre)
    found = from_gguf(tmp_path, toy_tokenizers.gguf_metadata(serialised, pre, add_bos=False))
    expected = load_folder(
        toy_tokenizers.write_folder(tmp_path / "hf", serialised, config_template=toy_tokenizers.TEMPLATE)
    )
    for text in TEXTS:
        assert found.encode(text) == expected.encode(text), text
        assert found.decode(expected.encode(text)) == expected.decode(expected.encode(text))
    assert found.encode_chat(CHAT) == expected.encode_chat(CHAT)
    assert found.template_source == "GGUF metadata"
    # The toy models' metadata name 1 and 2 as beginning and end.
    assert (found.size, found.bos_id, found.eos_ids) == (340, 1, (2,))


@pytest.mark.parametrize(
    ("pre", "add_bos", "expected"),
    [("smollm", None, False), ("smollm", True, True), ("llama-bpe", None, True), ("llama-bpe", False, False)],
)
def test_gguf_bos_follows_the_file_or_the_rule(tmp_path: Path, pre: str, add_bos: bool | None, expected: bool):
    changes = {} if add_bos is None else {"add_bos": add_bos}
    fill = toy_tokenizers.gguf_metadata(toy_tokenizers.byte_level(), pre, **changes)
    assert (from_gguf(tmp_path, fill).encode("the fox")[0] == 1) == expected


def test_gguf_padding_tokens_are_not_part_of_the_vocabulary(tmp_path: Path):
    content = json.loads(toy_tokenizers.byte_level())["model"]["vocab"]
    tokens = [*sorted(content, key=content.get), "[PAD340]", "[PAD341]"]
    kinds = [gguf.TokenType.NORMAL] * 340 + [gguf.TokenType.UNUSED] * 2
    fill = toy_tokenizers.gguf_metadata(toy_tokenizers.byte_level(), tokens=tokens, kinds=kinds)
    assert from_gguf(tmp_path, fill).size == 340


def test_gguf_user_defined_tokens_are_kept_when_special_ones_are_skipped(tmp_path: Path):
    kinds = [gguf.TokenType.CONTROL, gguf.TokenType.CONTROL, gguf.TokenType.USER_DEFINED]
    kinds += [gguf.TokenType.NORMAL] * 337
    tokenizer = from_gguf(tmp_path, toy_tokenizers.gguf_metadata(toy_tokenizers.byte_level(), kinds=kinds))
    assert tokenizer.encode("<|im_start|>") == [2]
    assert tokenizer.decode([0, 2], skip_special_tokens=True) == "<|im_start|>"


def test_gguf_without_template(tmp_path: Path):
    fill = toy_tokenizers.gguf_metadata(toy_tokenizers.byte_level(), template=None)
    tokenizer = from_gguf(tmp_path, fill)
    with pytest.raises(TemplateError):
        tokenizer.encode_chat("the fox")


@pytest.mark.parametrize(
    ("pre", "changes", "message"),
    [
        ("smollm", {"model": "llama"}, r"'llama'.*tokenizer\.json"),
        ("tekken", {}, r"pre is 'tekken'.*smollm"),
        ("smollm", {"merges": ["qq zz"]}, "merges.*qq zz"),
        ("smollm", {"kinds": [1, 2, 3]}, "token_type.*340"),
        ("smollm", {"tokens": ["a"] * 340}, "twice"),
    ],
)
def test_gguf_tokenizers_that_cannot_be_built(tmp_path: Path, pre: str, changes: dict, message: str):
    fill = toy_tokenizers.gguf_metadata(toy_tokenizers.byte_level(), pre, **changes)
    with pytest.raises(CheckpointError, match=message):
        from_gguf(tmp_path, fill)


def test_a_tokenizer_file_beside_the_gguf_wins_if_it_fits(tmp_path: Path):
    toy_tokenizers.write_folder(tmp_path, toy_tokenizers.byte_level())
    fill = toy_tokenizers.gguf_metadata(toy_tokenizers.byte_level(), "tekken")
    assert from_gguf(tmp_path, fill).decode([4]) == "!"
    fill = toy_tokenizers.gguf_metadata(toy_tokenizers.byte_level(), tokens=["a", "b"])
    with pytest.raises(CheckpointError, match=r"340 tokens.*knows 2"):
        from_gguf(tmp_path, fill)
