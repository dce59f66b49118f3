"""Public cases about where an output ends and what ends it, on the table target.

Leaves out: state after a cut (`test_contract_03_state.py`).
"""

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
from specdec.errors import NumericalError, SettingsError

BUDGET = 5


def walk_model(size: int = 16, **changes) -> specdec.Model:
    """Always says the next id: 3, 4, 5, ... modulo the vocabulary."""
    logits = np.zeros((size, size), np.float32)
    logits[np.arange(size), (np.arange(size) + 1) % size] = 5.0
    return toys.table(logits, **changes)


def always_right(model, prompt, budget=BUDGET, **changes):
    want = toys.decode(model, [prompt], cap=40, stop_ids=())
    return toys.scripted(
        toys.answers(want), budget, rows=[(Script.RIGHT, 0)], vocab=model.target.vocab_limit, **changes
    )


def test_case_02_the_first_draft_is_checked_and_the_prefill_token_returned():
    """Prompt lookup proposes 1 after [1, 1, 1]; the target says 2."""
    logits = np.zeros((8, 8), np.float32)
    logits[1, 2], logits[2, 3], logits[3, 1] = 5, 5, 5
    model = toys.table(logits)
    for budget in (2, 4):
        got = specdec.generate(model, [1, 1, 1], strategy=strategies.prompt_lookup(budget), max_new_tokens=7)
        assert got.ids == (2, 3, 1, 2, 3, 1, 2)
    one = specdec.generate(model, [1, 1, 1], strategy=strategies.prompt_lookup(4), max_new_tokens=1)
    assert one.ids == (2,) and one.target_passes == 0 and one.tokens_per_pass is None


@pytest.mark.parametrize("place", range(1, 2 * BUDGET + 1))
def test_case_03_a_stop_id_at_every_place_of_a_block(place):
    """The id at index `place` is declared a stop: first, middle and last draft, and bonus, all occur."""
    model = walk_model(64)
    strategy = always_right(model, [2])
    stop = 3 + place
    got = specdec.generate(model, [2], strategy=strategy, max_new_tokens=30, stop_ids=[stop])
    assert got.ids == tuple(range(3, stop + 1))
    assert got.finish_reason is FinishReason.STOP and got.detail == str(stop)
    assert 1 + sum(record.committed for record in got.rounds) == len(got.ids)
    assert got.target_passes == -(-place // BUDGET), "nothing is drafted after the stop"


@pytest.mark.parametrize("cap", [1, 2, BUDGET - 1, BUDGET, BUDGET + 1, 2 * BUDGET])
def test_case_06_exactly_the_cap(cap):
    model = walk_model(64)
    got = specdec.generate(model, [2], strategy=always_right(model, [2]), max_new_tokens=cap)
    assert got.ids == tuple(range(3, 3 + cap))
    assert got.finish_reason is FinishReason.LENGTH and got.detail == "max_new_tokens"
    assert 1 + sum(record.committed for record in got.rounds) == cap
    assert all(record.accepted <= record.drafted for record in got.rounds)


def test_case_06_a_cap_of_zero_runs_nothing_and_a_negative_one_is_refused():
    model = walk_model()
    got = specdec.generate(model, [2], max_new_tokens=0)
    assert got.ids == () and got.target_passes == 0 and got.finish_reason is FinishReason.LENGTH
    with pytest.raises(SettingsError, match=r"max_new_tokens.*-1"):
        specdec.generate(model, [2], max_new_tokens=-1)
    with pytest.raises(SettingsError, match="max_new_tokens"):
        specdec.stream(model, [2], max_new_tokens=-1)


def test_contract_07_a_stop_wins_the_tie_with_the_cap():
    model = walk_model(64)
    got = specdec.generate(model, [2], strategy=always_right(model, [2]), max_new_tokens=4, stop_ids=[6])
    assert got.ids == (3, 4, 5, 6) and got.finish_reason is FinishReason.STOP


@pytest.mark.parametrize("budget", [1, 2, 16])
def test_case_08_capacity_reached_inside_a_tree(budget):
    """Capacity = prompt + 6 and a block of 16: the tree shrinks, then plain steps, then reason length."""
    model = walk_model(64)
    strategy = strategies.plain() if budget == 1 else always_right(model, [2, 3], budget)
    got = specdec.generate(model, [2, 3], strategy=strategy, max_new_tokens=30, capacity=8)
    assert got.ids == tuple(range(4, 11)), "positions 2..7 are filled, and one more id is returned uncached"
    assert got.finish_reason is FinishReason.LENGTH and got.detail == "capacity"
    with pytest.raises(SettingsError, match="capacity"):
        specdec.generate(model, list(range(8)), capacity=8)


def test_case_08_a_drafter_past_its_own_positions_is_left_alone():
    model, prompt = toys.decoder(), toys.PROMPTS[5]
    short = toys.decoder(1, num_layers=1, hidden_size=16, num_heads=2, num_kv_heads=1, head_dim=8, max_positions=50)
    want = specdec.generate(model, prompt, max_new_tokens=40)
    got = specdec.generate(model, prompt, strategy=strategies.draft_model(short, 4), max_new_tokens=40)
    assert got.ids == want.ids
    assert got.fallbacks["drafter_limit"] > 20 and got.drafted > 0


def byte_model(text: str) -> tuple[specdec.Model, str]:
    """A model that says `text` letter by letter, whatever the prompt; ids are letters of the alphabet."""
    letters = sorted(set(text) | set("xyz"))
    raw = Raw(models.BPE(vocab={letter: at for at, letter in enumerate(letters)}, merges=[]))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.Split("", "isolated"), decoders.Fuse()
    size = len(letters)
    logits = np.full((size, size, size), 0.0, np.float32)
    for before, letter, after in zip("x" + text, text, text[1:], strict=False):
        logits[letters.index(before), letters.index(letter), letters.index(after)] = 5.0
    table = toys.table(logits)
    tokenizer = Tokenizer(PreTrainedTokenizerFast(tokenizer_object=raw))
    return specdec.Model("letters", table.target, table.params, tokenizer), "x" + text[0]


TEXT = "abcdefghijklmnopqrstuvw"


@pytest.mark.parametrize(
    ("stops", "cut"),
    [(["de"], "de"), (["cd", "fgh"], "cd"), (["qrs"], "qrs"), (["b"], "b"), (["nothing", "wv"], None)],
)
@pytest.mark.parametrize("budget", [1, 4, 15])
def test_case_05_stop_strings_inside_and_across_rounds(stops, cut, budget):
    model, prompt = byte_model(TEXT)
    ids = model.encode(prompt)
    strategy = strategies.plain() if budget == 1 else always_right(model, ids, budget)
    got = specdec.generate(model, ids, strategy=strategy, max_new_tokens=22, stop_strings=stops)
    want = TEXT[1:] if cut is None else TEXT[1 : TEXT.index(cut)]
    assert got.text == want
    if cut is not None:
        assert got.finish_reason is FinishReason.STOP and got.detail == cut
        assert model.decode(got.ids) == want + cut, "ids end with the one that completed the stop string"
    assert 1 + sum(record.committed for record in got.rounds) == len(got.ids)
    pieces = list(specdec.stream(model, ids, strategy=strategy, max_new_tokens=22, stop_strings=stops))
    assert "".join(piece.text for piece in pieces) == got.text
    assert sum((piece.ids for piece in pieces), ()) == got.ids == pieces[-1].result.ids


@pytest.mark.parametrize("strategy", [strategies.plain(), strategies.prompt_lookup(4)], ids=lambda one: one.name)
@pytest.mark.parametrize("heat", [0.0, 1.0])
def test_case_17_a_nan_logit_is_an_error_in_plain_and_speculative_alike(strategy, heat):
    logits = np.zeros((8, 8), np.float32)
    logits[np.arange(8), (np.arange(8) + 1) % 8] = 30.0
    logits[5, 2] = np.nan
    with pytest.raises(NumericalError, match="NaN"):
        specdec.generate(
            toys.table(logits),
            [1, 2, 1],
            strategy=strategy,
            max_new_tokens=20,
            sampling=specdec.sample_with(heat),
            seed=0,
        )


def test_case_22_a_row_follows_its_own_seed():
    model, sampling = toys.random_table(), specdec.sample_with(1.0)
    rows = [[5, 3]] * 3
    one, two, three = specdec.generate(model, rows, max_new_tokens=16, sampling=sampling, seed=[1, 2, 1])
    assert one.ids == three.ids != two.ids
    alone = specdec.generate(model, [5, 3], max_new_tokens=16, sampling=sampling, seed=2)
    assert alone.ids == two.ids and alone.seed == 2
    fresh = [specdec.generate(model, [5, 3], max_new_tokens=16, sampling=sampling) for _ in range(2)]
    assert fresh[0].seed != fresh[1].seed and fresh[0].ids != fresh[1].ids
    again = specdec.generate(model, [5, 3], max_new_tokens=16, sampling=sampling, seed=fresh[0].seed)
    assert again.ids == fresh[0].ids
    with pytest.raises(SettingsError, match="seed"):
        specdec.generate(model, rows, sampling=sampling, seed=[1, 2])
