"""Reading a prompt: the schedule of chunks, and that chunks do not matter. Leaves out: text."""

import dataclasses

import numpy as np
import pytest
from core import battery, toys
from hypothesis import example, given
from hypothesis import strategies as st

from specdec import strategies
from specdec.decoding.prefill import SMALLEST_CHUNK, schedule


@given(data=st.data(), total=st.integers(1, 5000), largest=st.sampled_from([32, 64, 100, 512, 4096]))
@example(data=None, total=300, largest=512)
def test_schedule_covers_the_prompt_and_keeps_to_the_room(data, total, largest):
    room = total if data is None else total + data.draw(st.integers(0, 600))
    chunks = schedule(total, largest, room)
    at = 0
    for start, size in chunks:
        assert start == at and size >= 1
        assert start < total, "a chunk of nothing but padding"
        assert size <= largest
        assert start + size <= room
        at += size
    assert at >= total


@given(total=st.integers(1, 4096), largest=st.sampled_from([64, 512]))
def test_schedule_has_few_sizes_and_little_padding(total, largest):
    """With room to spare every size is a power of two, and padding is at most a quarter beyond the smallest chunks."""
    chunks = schedule(total, largest, total + 8192)
    sizes = {size for _, size in chunks}
    assert all(size & (size - 1) == 0 and size >= SMALLEST_CHUNK for size in sizes)
    padding = sum(size for _, size in chunks) - total
    assert padding <= max(chunks[-1][1] // 4, 2 * SMALLEST_CHUNK - 1)


def test_chunks_of_any_size_make_the_same_state():
    """A largest chunk of 32: the prompt of 40 takes two, its neighbours end in the first."""
    model = toys.decoder()
    backend = dataclasses.replace(model.target.backend, prefill_chunk=32)
    small = dataclasses.replace(model, target=dataclasses.replace(model.target, backend=backend))
    rows = list(range(len(battery.ROWS)))
    for form in ("prompt_lookup", "draft_model"):
        engine = battery.make_engine(form, 5)
        whole = engine.prefill(battery.ROWS, toys.CAP, rows)
        parts = dataclasses.replace(engine, model=small).prefill(battery.ROWS, toys.CAP, rows)
        states = [(whole.target, parts.target)]
        if form == "draft_model":
            states.append((whole.drafter, parts.drafter))
        for one, two in states:
            np.testing.assert_array_equal(one.length, [len(prompt) for prompt in battery.ROWS])
            np.testing.assert_array_equal(two.length, one.length)
            assert float(battery.cache_error(two, one).max()) < 1e-4
        np.testing.assert_array_equal(parts.context.root, whole.context.root)
        np.testing.assert_allclose(parts.context.h0, whole.context.h0, atol=1e-4)


def test_the_first_context_is_that_of_the_prompt():
    engine = toys.engine(toys.random_table(), strategies.plain())
    prompts = [toys.PROMPTS[0], toys.PROMPTS[2]]
    state = engine.prefill(prompts, 9, [0, 0])
    for row, prompt in enumerate(prompts):
        history = np.asarray(state.context.history)[row]
        first = int(state.context.root[row])
        assert int(state.context.length[row]) == len(prompt)
        assert tuple(history[: len(prompt) + 1]) == (*prompt, first)
        assert int(state.returned[row]) == 1
        assert np.asarray(state.context.h0)[row].tolist() == [([0, *prompt])[-2], prompt[-1]]


@pytest.mark.parametrize("length", [1, 31, 32, 33, 64, 65, 97])
def test_prompts_around_the_chunk_sizes(length):
    """Plain decoding of a long prompt equals the table's own recurrence."""
    model = toys.random_table()
    prompt = tuple(int(token) for token in np.random.default_rng(length).integers(0, toys.VOCAB, length))
    text = [0, *prompt]
    logits = np.asarray(model.params)
    for _ in range(6):
        text.append(int(logits[text[-2], text[-1]].argmax()))
    assert toys.decode(model, [prompt], cap=6)[0].ids == tuple(text[-6:])
