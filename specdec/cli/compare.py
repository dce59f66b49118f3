"""`specdec compare`: strategies side by side, each checked against plain decoding.

Leaves out: the measuring (`specdec.analysis.compare`) and the tables (`specdec.analysis.report`).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec.cli import options
from specdec.cli.models import Load, load_draft
from specdec.cli.output import check_writable, progress_bar, shout, show, warn, write_json
from specdec.cli.registry import Entry, Given, Option, check_needs, find, make
from specdec.errors import SettingsError

if TYPE_CHECKING:
    from specdec.analysis.prompts import LabelledPrompt
    from specdec.decoding.policy import Strategy
    from specdec.model import Model

WRONG_OUTPUT = 1


def add_parser(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser("compare", help="compare strategies with plain decoding", allow_abbrev=False)
    options.add_model(parser)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("-m", "--message", action="append", metavar="TEXT", help="a prompt; may be repeated")
    source.add_argument("--prompts", metavar="FILE", help="Spec-Bench JSON lines, or one prompt per line")
    source.add_argument("--shipped", action="store_true", help="the library's own small set of prompts")
    parser.add_argument(
        "--limit", type=options.positive, metavar="K", help="take K prompts, evenly over the categories"
    )
    parser.add_argument("--strategies", type=_names, required=True, metavar="A,B,...", help="see `specdec list`")
    parser.add_argument(
        "--budget",
        type=_budgets,
        metavar="N[,N...]",
        help="nodes per target pass, the root included (default: each strategy's own)",
    )
    options.add_decoding(parser, max_new_tokens=128)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table as JSON")
    parser.add_argument("--by-category", action="store_true", help="print a row per category too")
    parser.add_argument(
        "--no-split",
        dest="split",
        action="store_false",
        help="do not time the stages of a round (saves their compilation)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, load: Load) -> int:
    """Runs the command; 1 if an output differs from plain decoding's for a reason other than rounding."""
    entries = [find(name) for name in arguments.strategies]
    _check_flags(arguments, entries)
    if arguments.json is not None:
        check_writable(arguments.json)
    options.start(arguments)
    from specdec.analysis.compare import compare
    from specdec.analysis.report import comparison_report

    prompts = _prompts(arguments)
    sampling = options.sampling(arguments)
    model = load(arguments.model, dtype=arguments.dtype, platform=arguments.platform)
    draft = None
    if any(Option.DRAFT_MODEL in entry.takes for entry in entries):
        draft = load_draft(arguments, model, load)
    with model.target.backend.scope(), progress_bar() as progress:
        comparison = compare(
            model,
            prompts,
            _strategies(arguments, entries, draft),
            max_new_tokens=arguments.max_new_tokens,
            sampling=sampling,
            seed=arguments.seed or 0,
            capacity=arguments.capacity,
            chat=options.chat(arguments),
            split=arguments.split,
            progress=progress,
        )
    show(comparison_report(comparison, by_category=arguments.by_category))
    if arguments.json is not None:
        write_json(arguments.json, comparison.to_json())
    return WRONG_OUTPUT if comparison.faults else 0


def _check_flags(arguments: argparse.Namespace, entries: list[Entry]) -> None:
    given = set() if arguments.draft_model is None else {Option.DRAFT_MODEL}
    for entry in entries:
        check_needs(entry, given)
    taken = {option for entry in entries for option in entry.takes}
    if arguments.budget is not None and Option.BUDGET not in taken:
        raise SettingsError(
            f"none of {', '.join(arguments.strategies)} uses --budget; drop it, or add a strategy that does."
        )
    if given - taken:
        shout(
            f"DRAFTER NOT USED: --draft-model {arguments.draft_model} is not used by any of "
            f"{', '.join(arguments.strategies)} and is not loaded. Add draft_model or draft_model_tree to --strategies."
        )


def _prompts(arguments: argparse.Namespace) -> list[LabelledPrompt]:
    from specdec.analysis.prompts import LabelledPrompt, read_prompts, shipped_prompts, take_evenly

    if arguments.message is not None:
        prompts = [LabelledPrompt(number, text) for number, text in enumerate(arguments.message, 1)]
    else:
        prompts = shipped_prompts() if arguments.shipped else read_prompts(arguments.prompts)
    if arguments.limit is not None:
        prompts = take_evenly(prompts, arguments.limit)
    if arguments.by_category and all(prompt.category is None for prompt in prompts):
        warn("--by-category has no effect: these prompts have no categories.")
    return prompts


def _strategies(arguments: argparse.Namespace, entries: list[Entry], draft: Model | None) -> list[Strategy]:
    """Every strategy with every budget; once where it takes none."""
    verifier = options.verifier(arguments)
    return [
        make(entry, Given(budget, draft, verifier))
        for entry in entries
        for budget in ((arguments.budget or [None]) if Option.BUDGET in entry.takes else [None])
    ]


def _names(text: str) -> list[str]:
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise argparse.ArgumentTypeError("expected at least one name")
    return names


def _budgets(text: str) -> list[int]:
    return list(dict.fromkeys(options.positive(item) for item in text.split(",")))
