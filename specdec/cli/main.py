"""The command's parser, and the one place where errors become exit codes.

0: done. 1: done, but an output is wrong. 2: refused, with one line that says what to do. 130: interrupted.
Leaves out: the commands themselves, one file each.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import specdec
from specdec.cli import compare, fetch, generate, listing
from specdec.cli.models import Load, load_model
from specdec.cli.output import complain
from specdec.errors import SpecdecError

REFUSED, INTERRUPTED = 2, 130


def main(argv: Sequence[str] | None = None, *, load: Load = load_model) -> int:
    """Runs one command.

    Args:
      argv: arguments without the program's name; None takes the process's own.
      load: how models are loaded (tests give their own).

    Returns:
      The exit code.
    """
    arguments = parser().parse_args(argv)
    try:
        return arguments.run(arguments, load)
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except SpecdecError as error:
        complain(f"error: {error}")
        return INTERRUPTED if isinstance(error.__cause__, KeyboardInterrupt) else REFUSED
    except BrokenPipeError:  # whoever read our output has had enough; nor can Python's last flush reach it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def parser() -> argparse.ArgumentParser:
    """All commands and their flags."""
    top = argparse.ArgumentParser(
        prog="specdec",
        description="Speculative decoding from composable parts: same output as plain decoding, fewer passes.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"specdec {specdec.__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (generate, compare, fetch, listing):
        command.add_parser(commands)
    return top
