"""`specdec generate`: one prompt, one answer, and one line on what speculation gave.

Leaves out: several prompts and chats of several turns.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Any

from specdec.cli import options
from specdec.cli.models import Load, load_draft
from specdec.cli.registry import Given, Option, check_needs, check_uses, find, make

if TYPE_CHECKING:
    from specdec.decoding.result import Result
    from specdec.model import Model


def add_parser(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser("generate", help="answer a prompt", allow_abbrev=False)
    options.add_model(parser)
    parser.add_argument("-m", "--message", required=True, metavar="TEXT", help="the prompt")
    parser.add_argument("--strategy", default="plain", metavar="NAME", help="see `specdec list` (default: %(default)s)")
    parser.add_argument("--budget", type=options.positive, metavar="N", help="nodes per target pass, the root included")
    options.add_decoding(parser, max_new_tokens=256)
    parser.add_argument(
        "--stop", nargs="+", action="extend", default=[], metavar="TEXT", help="texts that end the answer"
    )
    parser.add_argument("--stream", action="store_true", help="print the text as it comes")
    parser.add_argument(
        "--json", action="store_true", help="print the result as JSON (with --stream: one line a round)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, load: Load) -> int:
    """Runs the command."""
    entry = find(arguments.strategy)
    flags = {Option.BUDGET: arguments.budget, Option.DRAFT_MODEL: arguments.draft_model}
    given = {option for option, value in flags.items() if value is not None}
    check_uses(entry, given)
    check_needs(entry, given)
    options.start(arguments)
    settings = {
        "sampling": options.sampling(arguments),
        "seed": arguments.seed,
        "max_new_tokens": arguments.max_new_tokens,
        "stop_strings": tuple(arguments.stop),
        "capacity": arguments.capacity,
        "chat": options.chat(arguments),
    }
    model = load(arguments.model, dtype=arguments.dtype, platform=arguments.platform)
    draft = load_draft(arguments, model, load)
    settings["strategy"] = make(entry, Given(arguments.budget, draft, options.verifier(arguments)))
    from specdec.analysis.compile_counter import CompileCounter

    with model.target.backend.scope(), CompileCounter() as compiled:
        answer = _stream if arguments.stream else _whole
        result = answer(model, arguments.message, settings, as_json=arguments.json)
    print(result.summary() + _aside(compiled.seconds), file=sys.stderr if arguments.json else sys.stdout)
    return 0


def _aside(compiling: float) -> str:
    """A first run's rate says little about the strategy."""
    if compiling < 0.5:
        return ""
    return f" ({compiling:.0f} s of this run went into compiling; `specdec compare` measures after warm-up)"


def _whole(model: Model, message: str, settings: dict[str, Any], *, as_json: bool) -> Result:
    from specdec.decoding.generate import generate

    result = generate(model, message, **settings)
    assert not isinstance(result, list)  # one text is one row
    print(json.dumps(_json(result), ensure_ascii=False, indent=2) if as_json else result.text)
    return result


def _stream(model: Model, message: str, settings: dict[str, Any], *, as_json: bool) -> Result:
    from specdec.decoding.stream import stream

    result = None
    for piece in stream(model, message, **settings):
        if as_json:
            print(json.dumps({"text": piece.text, "ids": list(piece.ids)}, ensure_ascii=False), flush=True)
        else:
            print(piece.text, end="", flush=True)
        result = piece.result
    assert result is not None  # the last piece brings it
    print(json.dumps(_json(result), ensure_ascii=False) if as_json else "")
    return result


def _json(result: Result) -> dict[str, Any]:
    """Everything about a result, counters included."""
    return {
        "text": result.text,
        "ids": list(result.ids),
        "finish_reason": result.finish_reason.value,
        "detail": result.detail,
        "strategy": result.strategy,
        "budget": result.budget,
        "seed": result.seed,
        "prompt_tokens": len(result.prompt_ids),
        "tokens": len(result.ids),
        "target_passes": result.target_passes,
        "tokens_per_pass": result.tokens_per_pass,
        "drafted": result.drafted,
        "accepted": result.accepted,
        "acceptance_rate": result.acceptance_rate,
        "accepted_by_depth": list(result.accepted_by_depth),
        "fallbacks": result.fallbacks,
        "first_token_seconds": result.timing.first_token,
        "decode_seconds": result.timing.decode,
        "rounds": [dataclasses.asdict(record) for record in result.rounds],
    }
