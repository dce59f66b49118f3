"""Flags that `generate` and `compare` share, and the values made of them.

Leaves out: flags of one command only.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from specdec.cli.output import warn
from specdec.cli.registry import VerifierName
from specdec.cli.startup import AS_IS, OFFERED, prepare

if TYPE_CHECKING:
    from specdec.sampling import Sampling
    from specdec.verifiers import Verifier

DTYPES = ("float32", "bfloat16", "float16")
FILTERS = ("top_k", "top_p", "min_p", "seed")


def positive(text: str) -> int:
    """A whole number of at least 1, for argparse."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {value}")
    return value


def add_model(parser: argparse.ArgumentParser) -> None:
    """What decodes, and on what."""
    parser.add_argument(
        "model", metavar="MODEL", help="alias (see `specdec list`), folder, .gguf file, or hub repository"
    )
    group = parser.add_argument_group("model and machine")
    group.add_argument("--draft-model", metavar="MODEL", help="smaller model of the same vocabulary")
    group.add_argument("--dtype", choices=DTYPES, help="of weights and activations (default: the backend's choice)")
    group.add_argument("--platform", metavar="NAME", help="cpu, cuda or metal (default: what JAX runs on)")
    group.add_argument(
        "--xla-flags",
        default=AS_IS,
        metavar="FLAGS",
        help=f"{AS_IS!r} (default), {OFFERED!r} (those the CPU backend offers), or flags: --xla-flags=--xla_...",
    )
    group.add_argument(
        "--no-compile-cache",
        dest="compile_cache",
        action="store_false",
        help="compile everything anew and keep nothing",
    )


def add_decoding(parser: argparse.ArgumentParser, max_new_tokens: int) -> None:
    """How ids are drawn and when a row ends."""
    group = parser.add_argument_group("decoding")
    group.add_argument("--max-new-tokens", type=int, default=max_new_tokens, metavar="N", help="default: %(default)s")
    group.add_argument("--temperature", type=float, default=0.0, metavar="T", help="0 (default) is greedy")
    group.add_argument("--top-k", type=int, metavar="K", help="keep the K best ids")
    group.add_argument("--top-p", type=float, metavar="P", help="keep the best ids up to this mass")
    group.add_argument(
        "--min-p", type=float, metavar="P", help="keep ids with this share of the best one's probability"
    )
    group.add_argument("--seed", type=int, metavar="S", help="of sampling; the same seed gives the same output")
    group.add_argument(
        "--verifier",
        choices=[name.value for name in VerifierName],
        help="default: greedy at temperature 0, coupled above",
    )
    group.add_argument("--capacity", type=positive, metavar="N", help="positions for prompt and output together")
    group.add_argument("--raw", action="store_true", help="take the text as it is, without the chat template")


def start(arguments: argparse.Namespace) -> None:
    """Prepares JAX; must come before anything that starts it."""
    prepare(arguments.xla_flags, compile_cache=arguments.compile_cache)


def sampling(arguments: argparse.Namespace) -> Sampling:
    """Sampling settings; says which flags have no effect."""
    from specdec.sampling import sample_with

    settings = sample_with(arguments.temperature, top_k=arguments.top_k, top_p=arguments.top_p, min_p=arguments.min_p)
    for name in FILTERS:
        if settings.greedy and getattr(arguments, name) is not None:
            flag = "--" + name.replace("_", "-")
            warn(f"{flag} has no effect at temperature 0, which is greedy; set --temperature to sample.")
    return settings


def verifier(arguments: argparse.Namespace) -> Verifier | None:
    """The verifier that was named, or None to let the library choose."""
    return None if arguments.verifier is None else VerifierName(arguments.verifier).make()


def chat(arguments: argparse.Namespace) -> bool | None:
    """Whether a text is a user's turn: False if --raw, else "if the model has a template"."""
    return False if arguments.raw else None
