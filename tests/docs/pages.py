"""Python blocks of the Markdown pages, and how to run them.

A fence that begins with "python run" is run, all of a page in order and in one namespace. A fence "text output"
right after one is what that block prints, with any model; "text output NAME" is what it prints with that model.
Leaves out: which pages are run with which model (`test_pages.py`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
import sys
import types
from pathlib import Path
from typing import Any

_BLOCK = re.compile(
    r"^```python run\n(?P<code>.*?)^```[ \t]*\n"
    r"(?:\s*^```text output[ ]?(?P<model>[^\n]*)\n(?P<output>.*?)^```[ \t]*$)?",
    re.MULTILINE | re.DOTALL,
)


@dataclasses.dataclass(frozen=True)
class Block:
    """One runnable block.

    Args:
      code: its text.  line: of the page, before the code.
      output: what it prints, None if that is not stated.  model: with which model, None if with any.
    """

    code: str
    line: int
    output: str | None
    model: str | None


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(match["code"], text.count("\n", 0, match.start("code")), match["output"], match["model"] or None)
        for match in _BLOCK.finditer(text)
    ]


def run_page(page: Path) -> tuple[dict[str, Any], list[tuple[Block, str]]]:
    """The namespace at the end, and what each block printed."""
    module = types.ModuleType(f"page_{page.stem}")
    sys.modules[module.__name__] = module  # dataclasses look for the module of their class
    printed = []
    for block in blocks_of(page):
        # Blank lines in front, so that a traceback names the line of the page.
        code = compile("\n" * block.line + block.code, str(page), "exec", dont_inherit=True)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(code, vars(module))
        printed.append((block, out.getvalue()))
    return vars(module), printed
