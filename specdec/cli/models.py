"""Loading the models that a command names.

Leaves out: everything that loading means (`specdec.model`).
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Protocol

from specdec.errors import CompatibilityError

if TYPE_CHECKING:
    from specdec.model import Model


class Load(Protocol):
    """How a command gets a model."""

    def __call__(self, model: str, *, dtype: str | None, platform: str | None) -> Model: ...


def load_model(model: str, *, dtype: str | None, platform: str | None) -> Model:
    """`specdec.load` with its progress bars."""
    from specdec.model import load

    return load(model, dtype=dtype, platform=platform)


def load_draft(arguments: argparse.Namespace, target: Model, load: Load) -> Model | None:
    """The draft model, if one was named. The target's own name gives the target itself, loaded once.

    Raises:
      CompatibilityError: its ids mean other texts than the target's.
    """
    name = arguments.draft_model
    if name is None:
        return None
    if name == arguments.model:
        return target
    draft = load(name, dtype=arguments.dtype, platform=arguments.platform)
    _check_same_ids(draft, target)
    return draft


def _check_same_ids(draft: Model, target: Model) -> None:
    if draft.tokenizer is None or target.tokenizer is None:
        return
    mine, theirs = (tokenizer.backend.get_vocab() for tokenizer in (draft.tokenizer, target.tokenizer))
    wrong = next((text for text, item in mine.items() if theirs.get(text, item) != item), None)
    if wrong is not None or not set(mine) & set(theirs):
        raise CompatibilityError(
            f"draft model {draft.name!r} has another vocabulary than {target.name!r}"
            + (f" (text {wrong!r} has ids {mine[wrong]} and {theirs[wrong]})" if wrong is not None else "")
            + "; use a draft model of the same family."
        )
