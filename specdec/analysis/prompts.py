"""Prompt files: Spec-Bench JSONL or one prompt per line.

Leaves out: later turns of a conversation; of `turns` only the first is used, as a real answer to it is not known.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from specdec.errors import SettingsError
from specdec.model import Prompt


@dataclasses.dataclass(frozen=True)
class LabelledPrompt:
    """A prompt with a name for reports.

    Args:
      id: `question_id`, or the number of its line.
      prompt: what is decoded from.
      category: None where prompts have no categories.
    """

    id: int | str
    prompt: Prompt
    category: str | None = None


def read_prompts(path: str | Path) -> list[LabelledPrompt]:
    """Reads a prompt file.

    JSON lines, if the name ends in `.jsonl` or the first line starts with a brace: objects with `turns` (a list of
    texts, or of chat messages) and, if known, `question_id` and `category`. Otherwise every line that is not blank
    is a prompt.

    Args:
      path: the file, in UTF-8.

    Raises:
      SettingsError: no such file, or a malformed line, which is named.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise SettingsError(f"prompts {path}: cannot be read ({error.strerror}). Check the path.") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"prompts {path}: not UTF-8 (byte {error.start}). Convert the file.") from error
    return parse_prompts(lines, str(path), json_lines=True if path.suffix == ".jsonl" else None)


def shipped_prompts() -> list[LabelledPrompt]:
    """The library's own small set: short prompts of six categories, written for it."""
    text = resources.files("specdec").joinpath("data", "prompts.jsonl").read_text(encoding="utf-8")
    return parse_prompts(text.splitlines(), "prompts.jsonl", json_lines=True)


def parse_prompts(lines: Sequence[str], name: str, *, json_lines: bool | None = None) -> list[LabelledPrompt]:
    """The same for lines at hand.

    Args:
      lines: text lines.
      name: of the file, for messages.
      json_lines: None decides by the first line.

    Raises:
      SettingsError: a malformed line, or no prompt at all.
    """
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        raise SettingsError(f"prompts {name}: no prompt found. Give one per line, or Spec-Bench JSON lines.")
    if json_lines is None:
        json_lines = numbered[0][1].lstrip().startswith("{")
    if json_lines:
        return [_parse(line, name, number) for number, line in numbered]
    return [LabelledPrompt(number, line.strip()) for number, line in numbered]


def _parse(line: str, name: str, number: int) -> LabelledPrompt:
    def refuse(why: str) -> SettingsError:
        return SettingsError(
            f'prompts {name}, line {number}: {why}. Expected {{"turns": ["..."]}}, with "category" if known.'
        )

    try:
        entry: Any = json.loads(line)
    except ValueError as error:
        raise refuse(f"not JSON ({error})") from error
    if not isinstance(entry, dict):
        raise refuse(f"a JSON object was expected, came {type(entry).__name__}")
    turns, category = entry.get("turns"), entry.get("category")
    if not isinstance(turns, list) or not turns:
        raise refuse(f"'turns' should be a list with at least one text, came {turns!r:.60}")
    if not isinstance(turns[0], str) or not turns[0].strip():
        raise refuse(f"the first of 'turns' should be a text, came {turns[0]!r:.60}")
    if category is not None and not isinstance(category, str):
        raise refuse(f"'category' should be a text, came {category!r:.60}")
    label = entry.get("question_id", number)
    if isinstance(label, bool) or not isinstance(label, int | str):
        raise refuse(f"'question_id' should be a number or a text, came {label!r:.60}")
    return LabelledPrompt(label, turns[0], category)


def take_evenly(prompts: Sequence[LabelledPrompt], limit: int) -> list[LabelledPrompt]:
    """The first `limit` prompts, evenly over the categories; the order of the file is kept.

    Categories take turns in order of first appearance, each giving its next prompt, until `limit` are taken. A
    larger limit therefore only adds prompts.

    Args:
      prompts: all of them.
      limit: how many to take, at least 1.

    Raises:
      SettingsError: a limit below 1.

    Example:
      >>> file = [LabelledPrompt(i, "text", c) for i, c in enumerate("aaabbc")]
      >>> [prompt.id for prompt in take_evenly(file, 4)]
      [0, 1, 3, 5]
    """
    if limit < 1:
        raise SettingsError(f"limit must be at least 1, got {limit}.")
    queues: dict[str | None, list[int]] = {}
    for index, prompt in enumerate(prompts):
        queues.setdefault(prompt.category, []).append(index)
    rounds = max((len(queue) for queue in queues.values()), default=0)
    order = [queue[turn] for turn in range(rounds) for queue in queues.values() if turn < len(queue)]
    return [prompts[index] for index in sorted(order[:limit])]
