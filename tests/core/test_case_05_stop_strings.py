"""Stop strings, wherever they fall: text, ids, counts and reason agree on one cut; streams say the same.

A tokenizer of words and letters, and a target that recites one text. Leaves out: characters split over ids
(`tests/checkpoints`), stop ids (`test_contract_06_07_counts.py`).
"""

import functools

import numpy as np
import pytest
from core import toys
from tokenizers import Tokenizer as Raw
from tokenizers import decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import specdec
from specdec import strategies
from specdec.checkpoints import Tokenizer
from specdec.decoding.result import FinishReason
from specdec.drafters import Script
from specdec.errors import SettingsError

# One id each.
PIECES = ["", *"abcdefghijklmnopqrstuvwxyz", "the ", "stop", "ST", "OP", "\n\nUser", ":", "é", "<end>"]
SAID = [*"ab", "ST", "OP", *"cdef", "the ", "stop", *"ghijklmn", "ST", "o", "OP", "p", "\n\nUser", ":"]
SAID += [*"qrsét", "<end>", *"uv"]
TEXT = "".join(SAID).replace("<end>", "")
START = "z"
CAP = len(SAID)


@functools.cache
def reciter() -> specdec.Model:
    """Says `SAID`, whose ids are told apart by the two before them."""
    vocabulary = {piece: number for number, piece in enumerate(PIECES)}
    backend = Raw(models.WordLevel(vocabulary, unk_token=""))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    backend.decoder = decoders.Fuse()
    backend.add_special_tokens(["<end>"])
    size = len(PIECES)
    logits = np.zeros((size, size, size), np.float32)
    said = [PIECES.index(piece) for piece in ("", START, *SAID)]
    for before, one, after in zip(said, said[1:], said[2:], strict=False):
        assert logits[before, one].max() == 0, "two ids do not tell where the text is"
        logits[before, one, after] = 5
    table = toys.table(logits)
    return specdec.Model(
        "reciter", table.target, table.params, Tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend))
    )


def policy(name: str):
    """Blocks of 15 right drafts, of three, and prompt lookup, which drafts a little now and then."""
    model = reciter()
    if name == "plain":
        return None
    if name == "prompt_lookup":
        return strategies.prompt_lookup(4)
    answer = np.asarray([[PIECES.index(piece) for piece in (START, *SAID)] + [0] * 200], np.int32)
    size = model.target.vocab_limit
    return toys.scripted(answer, int(name.split()[1]), rows=[(Script.RIGHT, 0)], vocab=size)


POLICIES = ("plain", "block 4", "block 16", "prompt_lookup")


def say(name: str, stops, cap: int = CAP, **settings):
    return specdec.generate(
        reciter(), [PIECES.index(START)], strategy=policy(name), max_new_tokens=cap, stop_strings=stops, **settings
    )


def check(result, text: str, ids: int, detail: str) -> None:
    assert result.text == text
    assert [PIECES[i] for i in result.ids] == SAID[:ids]
    assert result.detail == detail
    assert len(result.ids) == 1 + sum(record.committed for record in result.rounds)
    assert all(record.committed == record.accepted + 1 <= record.drafted + 1 for record in result.rounds)


# stop strings -> text, ids kept, the string that was hit
CASES = {
    "over ids 2 and 3": (["STOP"], "ab", 4, "STOP"),
    "ends inside an id": (["to"], "abSTOPcdefthe s", 10, "to"),
    "begins inside an id": (["e s"], "abSTOPcdefth", 10, "e s"),
    "two in one block, the earlier one wins": (["ef", "cd"], "abSTOP", 6, "cd"),
    "two that end with one id: the longer one began earlier": (["P", "TOP"], "abS", 4, "TOP"),
    "one is the beginning of the other": (["STOP!", "ST"], "ab", 3, "ST"),
    "begins in one round of four and ends in the next": (["defthe stop"], "abSTOPc", 10, "defthe stop"),
    "false starts before it": (["STo", "STx", "the s!"], "abSTOPcdefthe stopghijklmn", 20, "STo"),
    "past the first sixteen": (["\n\nUser:"], "abSTOPcdefthe stopghijklmnSToOPp", 24, "\n\nUser:"),
    "the first id": (["a"], "", 1, "a"),
    "not ascii": (["é"], TEXT[: TEXT.index("é")], 28, "é"),
    "over a special id that has no text": (["tu"], TEXT[: TEXT.index("tu")], 31, "tu"),
    "the last id that the cap allows": (["uv"], TEXT[: TEXT.index("uv")], CAP, "uv"),
    "never": (["zzz", "STOPx"], TEXT, CAP, "max_new_tokens"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", POLICIES)
def test_case_05_text_ids_and_counts_agree(name, case):
    stops, text, ids, detail = CASES[case]
    result = say(name, stops)
    check(result, text, ids, detail)
    ended = FinishReason.LENGTH if detail == "max_new_tokens" else FinishReason.STOP
    assert result.finish_reason is ended


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["plain", "block 4", "block 16"])
def test_case_05_streams_say_the_same(name, case):
    """Pieces joined are the text; none holds a stop string's beginning that is taken back later."""
    stops, text, ids, detail = CASES[case]
    pieces = list(
        specdec.stream(reciter(), [PIECES.index(START)], strategy=policy(name), max_new_tokens=CAP, stop_strings=stops)
    )
    assert "".join(piece.text for piece in pieces) == text
    assert sum((piece.ids for piece in pieces), ()) == pieces[-1].result.ids
    check(pieces[-1].result, text, ids, detail)
    sofar = ""
    for piece in pieces:
        sofar += piece.text
        assert text.startswith(sofar)


def test_case_05_the_blocks_are_as_large_as_the_cases_say():
    """The scripts really accept whole blocks, or the cases above prove little."""
    assert say("block 16", ()).rounds[0].accepted == 15
    assert [record.accepted for record in say("block 4", ()).rounds][:3] == [3, 3, 3]
    assert say("block 16", ["STOP"]).rounds[0].accepted == 2
    assert say("block 16", ["STOP"]).target_passes == 1


@pytest.mark.parametrize("name", POLICIES)
def test_contract_07_the_earliest_of_string_id_and_cap_decides(name):
    end, stop = PIECES.index("<end>"), PIECES.index("stop")
    # The id comes first.
    result = say(name, ["stopg"], stop_ids=[stop])
    check(result, "abSTOPcdefthe stop", 10, str(stop))
    # The string comes first.
    check(say(name, ["STOP"], stop_ids=[stop]), "ab", 4, "STOP")
    # Both with one id: a stop either way, and the string does not show.
    both = say(name, ["top"], stop_ids=[stop])
    check(both, "abSTOPcdefthe s", 10, "top")
    # The cap comes first, inside what would have become a stop string.
    capped = say(name, ["STOP"], cap=3)
    check(capped, "abST", 3, "max_new_tokens")
    # String and cap with one id: the stop wins.
    tied = say(name, ["STOP"], cap=4)
    check(tied, "ab", 4, "STOP")
    assert tied.finish_reason is FinishReason.STOP
    # A stop id without a text of its own.
    check(say(name, [], stop_ids=[end]), TEXT[: TEXT.index("tu") + 1], 30, str(end))


def test_case_05_the_prompt_is_not_searched():
    """Only what was said after it; a string that begins in the prompt is none."""
    model = reciter()
    prompt = [PIECES.index(piece) for piece in (START, "a", "b", "ST")]
    result = specdec.generate(model, prompt, max_new_tokens=5, stop_strings=["STOP", "za"])
    assert result.text == "OPcdef" and result.finish_reason is FinishReason.LENGTH


def test_case_05_rows_of_a_batch_are_cut_each_at_its_own_place():
    model = reciter()
    starts = [[START], [START, "a", "b", "ST", "OP"], ["p", "\n\nUser"]]
    prompts = [[PIECES.index(piece) for piece in row] for row in starts]
    for strategy in (None, strategies.prompt_lookup(4)):
        results = specdec.generate(model, prompts, strategy=strategy, max_new_tokens=20, stop_strings=["STOP", "the"])
        for prompt, result in zip(prompts, results, strict=True):
            alone = specdec.generate(model, prompt, strategy=strategy, max_new_tokens=20, stop_strings=["STOP", "the"])
            assert (result.ids, result.text, result.detail) == (alone.ids, alone.text, alone.detail)
            assert result.rounds == alone.rounds
        assert [result.detail for result in results] == ["STOP", "the", "max_new_tokens"]


@pytest.mark.parametrize("stops", ["STOP", [""], [3], ["a", None]])
def test_case_05_bad_stop_strings_are_refused(stops):
    for call in (specdec.generate, specdec.stream):
        with pytest.raises(SettingsError, match="stop_strings"):
            call(reciter(), [1], stop_strings=stops)
    with pytest.raises(SettingsError, match="no tokenizer"):
        specdec.generate(toys.random_table(), [1], stop_strings=["a"])
