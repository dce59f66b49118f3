"""`stream`: the same rounds as `generate`, one at a time, with text as soon as it is certain.

Abandon the iterator whenever you like: the state lives in it and nowhere else.
Leaves out: batches.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence

import jax

from specdec.decoding.collect import collect, empty_result, returned_ids
from specdec.decoding.engine import row_seeds
from specdec.decoding.generate import check_cap, end_hits, make_engine
from specdec.decoding.policy import Strategy
from specdec.decoding.result import Result, Timing
from specdec.decoding.text import TextCutter
from specdec.model import Model, Prompt
from specdec.sampling import Sampling


@dataclasses.dataclass(frozen=True)
class Piece:
    """What one round added.

    Args:
      text: new text, whole characters only; the pieces joined are `Result.text`.
      ids: new ids; joined they are `Result.ids`.
      result: the finished result in the last piece, None before.
    """

    text: str
    ids: tuple[int, ...]
    result: Result | None = None


def stream(
    model: Model,
    prompt: Prompt,
    *,
    strategy: Strategy | None = None,
    max_new_tokens: int = 256,
    sampling: Sampling | None = None,
    seed: int | Sequence[int] | None = None,
    stop_ids: Sequence[int] | None = None,
    stop_strings: Sequence[str] = (),
    capacity: int | None = None,
    chat: bool | None = None,
) -> Iterator[Piece]:
    """Yields a `Piece` per round; arguments and errors as in `generate`, for one prompt.

    Everything is checked, and errors are raised, before the first piece is asked for.
    """
    started = time.perf_counter()
    ids = model.encode(prompt, chat=chat)
    engine = make_engine(model, strategy, sampling, stop_ids, stop_strings, capacity)
    check_cap(max_new_tokens)
    seeds = [int(one) for one in row_seeds(seed, 1)]
    if max_new_tokens == 0:
        return iter([Piece("", (), empty_result(engine, ids, seeds[0]))])
    engine.check_prompt(len(ids))

    def pieces() -> Iterator[Piece]:
        state = engine.prefill([ids], max_new_tokens, seeds)
        jax.block_until_ready(state.context.root)
        first = time.perf_counter()
        cutter, seen = TextCutter(model.tokenizer, stop_strings), 0
        while True:
            fresh = returned_ids(state)[0][seen:]
            text = cutter.push(fresh)
            state = end_hits(state, [cutter])
            kept = fresh if cutter.hit is None else fresh[: cutter.hit.tokens - seen]
            seen += len(fresh)
            if not bool(state.running.any()):
                break
            yield Piece(text, tuple(kept))
            state = engine.run_owned(state, 1)
        timing = Timing(first_token=first - started, decode=time.perf_counter() - first)
        result = collect(engine, state, [ids], [stop_strings], timing)[0]
        yield Piece(text + cutter.flush(), tuple(kept), result)

    return pieces()
