"""`specdec list`: models with short names, and strategies.

Leaves out: models in the hub's own cache.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from specdec.checkpoints import ALIASES, cache_dir
from specdec.cli.models import Load
from specdec.cli.output import show
from specdec.cli.registry import ENTRIES


def add_parser(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser("list", help="list models and strategies", allow_abbrev=False)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, load: Load) -> int:
    """Runs the command."""
    from rich import box
    from rich.table import Table

    models = Table(
        "model", "what it is", "size", "here?", box=box.SIMPLE, title="models (a folder or .gguf file works too)"
    )
    for alias in ALIASES.values():
        wheel = alias.wheel
        file = cache_dir() / "models" / alias.name / Path(wheel.member).name
        here = "yes" if file.is_file() else f"no: specdec fetch {alias.name}"
        models.add_row(
            alias.name, f"{alias.hub}, {file.suffixes[-2].lstrip('.')}", f"{wheel.member_size >> 20} MiB", here
        )
    show(models)
    strategies = Table("strategy", "what it does", "flags", box=box.SIMPLE, title="strategies")
    for entry in ENTRIES:
        flags = ", ".join(sorted(option.value for option in entry.takes))
        strategies.add_row(entry.name, entry.summary, flags)
    show(strategies)
    return 0
