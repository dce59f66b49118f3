"""`specdec fetch`: brings a model into the cache before it is needed.

Leaves out: where it comes from and how it is checked (`specdec.checkpoints`).
"""

from __future__ import annotations

import argparse
from typing import Any

from specdec.checkpoints import ALIASES, locate
from specdec.cli.models import Load


def add_parser(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser("fetch", help="download a model", allow_abbrev=False)
    parser.add_argument("model", metavar="MODEL", help=f"alias ({', '.join(ALIASES)}) or hub repository")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, load: Load) -> int:
    """Runs the command; prints where the model lies."""
    files = locate(arguments.model)
    print(files.gguf or files.folder)
    return 0
