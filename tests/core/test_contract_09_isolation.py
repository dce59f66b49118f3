"""Generations share a model and nothing else: abandoned, interleaved, or in threads.

Leaves out: two generations from one state (`test_case_38_compilation.py`).
"""

import gc
import itertools
from concurrent.futures import ThreadPoolExecutor

import jax
import pytest
from core import battery, toys
from core.battery import plain

import specdec
from specdec import strategies

PROMPTS = [list(battery.ROWS[row]) for row in (3, 6, 18)]
WANT = (3, 6, 18)


def start(number: int, strategy=None):
    strategy = strategy or strategies.prompt_lookup(5)
    return specdec.stream(toys.decoder(), PROMPTS[number], strategy=strategy, max_new_tokens=toys.CAP)


def want(number: int) -> tuple[int, ...]:
    return plain(5)[WANT[number] // 3 * 3].ids


def joined(pieces) -> tuple[int, ...]:
    pieces = list(pieces)
    assert [piece.result is not None for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    ids = tuple(itertools.chain.from_iterable(piece.ids for piece in pieces))
    assert ids == pieces[-1].result.ids
    return ids


def test_contract_09_a_stream_is_the_generation_in_pieces():
    for number in range(3):
        assert joined(start(number)) == want(number)


@pytest.mark.parametrize("after", [1, 2, 5])
def test_contract_09_a_stream_may_be_abandoned_at_any_piece(after):
    """Closed or dropped; the next one on the same model is whole, and nothing stays behind."""
    dropped = start(1)
    taken = list(itertools.islice(dropped, after))
    ids = tuple(itertools.chain.from_iterable(piece.ids for piece in taken))
    assert ids == want(1)[: len(ids)]
    dropped.close()
    del dropped, taken
    assert joined(start(1)) == want(1)
    never_asked = start(0)
    del never_asked
    assert joined(start(0)) == want(0)


def test_contract_09_abandoned_streams_leave_no_arrays_behind():
    list(itertools.islice(start(1), 3))
    gc.collect()
    before = len(jax.live_arrays())
    for _ in range(3):
        list(itertools.islice(start(1), 3))
    gc.collect()
    assert len(jax.live_arrays()) <= before


def test_case_37_interleaved_streams_do_not_mix():
    """Two prompts and two strategies, a piece of each in turn."""
    draft = strategies.draft_model(toys.small_drafter(), 5)
    running = {0: start(0), 1: start(1), 2: start(2, draft)}
    found: dict[int, list[int]] = {number: [] for number in running}
    while running:
        for number, pieces in list(running.items()):
            piece = next(pieces, None)
            if piece is None:
                del running[number]
            else:
                found[number] += piece.ids
    assert {number: tuple(ids) for number, ids in found.items()} == {number: want(number) for number in found}


def test_case_37_threads_do_not_mix():
    def work(number: int) -> tuple[int, ...]:
        draft = strategies.draft_model(toys.small_drafter(), 5)
        return joined(start(number % 3, draft if number % 2 else None))

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(12)))
    assert found == [want(number % 3) for number in range(12)]
