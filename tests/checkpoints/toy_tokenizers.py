"""Tiny tokenizers trained here and now, as Hugging Face folders and as GGUF metadata.

Leaves out: models (`toys.py`).
"""

import functools
import json
from pathlib import Path

import gguf
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
BOS_TEMPLATE = "{{ bos_token }}" + TEMPLATE
CORPUS = [
    "the quick brown fox jumps over the lazy dog and the dog doesn't mind it",
    "speculative decoding proposes tokens; the target verifies the proposed tokens 2024 123 2024",
    "漢字とかなの文 漢字 🙂👍🙂 naïve café naïve",
] * 4


@functools.cache
def byte_level(adds_bos: bool = False) -> str:
    """A serialised byte-level BPE that splits digits, like SmolLM2's."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    backend.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(
            vocab_size=340,
            special_tokens=SPECIAL,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    if adds_bos:
        backend.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 0)]
        )
    return backend.to_str()


def sentencepiece_like() -> tokenizers.Tokenizer:
    """A BPE with byte fallback and word-boundary marks, as in Llama 2."""
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for byte in range(256):
        vocabulary[f"<0x{byte:02X}>"] = len(vocabulary)
    for character in "▁abcdefghijklmnopqrstuvwxyz漢\ufffd":
        vocabulary[character] = len(vocabulary)
    vocabulary["▁a"] = len(vocabulary)
    backend = tokenizers.Tokenizer(
        models.BPE(vocabulary, [("▁", "a")], unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    backend.add_special_tokens(["<s>", "</s>"])
    return backend


def write_folder(
    folder: Path,
    serialised: str,
    *,
    config_template: str | None = None,
    jinja_template: str | None = None,
    **settings,
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(serialised, encoding="utf-8")
    values = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        **settings,
    }
    if config_template is not None:
        values["chat_template"] = config_template
    (folder / "tokenizer_config.json").write_text(json.dumps(values))
    if jinja_template is not None:
        (folder / "chat_template.jinja").write_text(jinja_template)
    return folder


def gguf_metadata(serialised: str, pre: str = "smollm", **changes):
    """A `fill` for `toys.write_gguf` that stores a byte-level BPE the way llama.cpp's converter does."""
    content = json.loads(serialised)
    vocabulary = content["model"]["vocab"]
    tokens = [token for token, _ in sorted(vocabulary.items(), key=lambda item: item[1])]
    special = {token["content"] for token in content["added_tokens"]}
    kinds = [gguf.TokenType.CONTROL if token in special else gguf.TokenType.NORMAL for token in tokens]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in content["model"]["merges"]]
    values = {"model": "gpt2", "tokens": tokens, "kinds": kinds, "merges": merges, "template": TEMPLATE}
    values.update(changes)

    def fill(writer: gguf.GGUFWriter) -> None:
        writer.add_tokenizer_model(values["model"])
        if pre is not None:
            writer.add_tokenizer_pre(pre)
        writer.add_token_list(values["tokens"])
        writer.add_token_types(values["kinds"])
        writer.add_token_merges(values["merges"])
        if values["template"] is not None:
            writer.add_chat_template(values["template"])
        if "add_bos" in values:
            writer.add_add_bos_token(values["add_bos"])

    return fill
