"""Which ids end a turn when the user names none.

Leaves out: stop strings, and applying the ids (`specdec.decoding`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdec.checkpoints.tokenizer import Tokenizer

if TYPE_CHECKING:
    from specdec.targets.config import TargetConfig


def stop_ids(config: TargetConfig, tokenizer: Tokenizer | None) -> tuple[int, ...]:
    """The union of the ids that the model's configuration, generation configuration and tokenizer name.

    No source replaces another: a chat model often lists its end-of-turn id in one place and the end of
    text in another, and stopping at only one of them lets it open a second turn. A set given by the user
    replaces this one.

    Args:
      config: the target's configuration, whose `stop_ids` already unite its own two files.
      tokenizer: the target's tokenizer, or None.

    Returns:
      The ids, ascending, without repetition.
    """
    own = tokenizer.eos_ids if tokenizer is not None else ()
    return tuple(sorted({*config.stop_ids, *own}))
