"""Strategies by name: what each accepts on the command line. A new strategy is one `Entry`.

Leaves out: the strategies (`specdec.strategies`), which are imported when one is made.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from specdec.errors import SettingsError

if TYPE_CHECKING:
    from specdec.decoding.policy import Strategy
    from specdec.model import Model
    from specdec.verifiers import Verifier


class Option(enum.Enum):
    """Flags that only some strategies use."""

    BUDGET = "--budget"
    DRAFT_MODEL = "--draft-model"


class VerifierName(enum.Enum):
    """Names of verifiers."""

    GREEDY = "greedy"
    COUPLED = "coupled"
    TARGET_ONLY = "target_only"

    def make(self) -> Verifier:
        """The part of that name."""
        from specdec import verifiers

        parts: dict[VerifierName, type[Verifier]] = {
            VerifierName.GREEDY: verifiers.Greedy,
            VerifierName.COUPLED: verifiers.Coupled,
            VerifierName.TARGET_ONLY: verifiers.TargetOnly,
        }
        return parts[self]()


@dataclasses.dataclass(frozen=True)
class Given:
    """What the command line gave for a strategy; None where it said nothing."""

    budget: int | None = None
    draft: Model | None = None
    verifier: Verifier | None = None

    def settings(self, **more: Any) -> dict[str, Any]:
        """Keyword arguments of a strategy's factory; what was not given is left to its defaults."""
        budget = {} if self.budget is None else {"budget": self.budget}
        return {**budget, "verifier": self.verifier, **more}


@dataclasses.dataclass(frozen=True)
class Entry:
    """One strategy of the command line.

    Args:
      name: as the user types it; also the name of the strategy it makes.
      summary: one line for `specdec list`.
      make: builds it.
      takes: flags it uses.  needs: those it cannot do without.
    """

    name: str
    summary: str
    make: Callable[[Any, Given], Strategy]
    takes: frozenset[Option] = frozenset()
    needs: frozenset[Option] = frozenset()


_BUDGET = frozenset({Option.BUDGET})
_DRAFT = frozenset({Option.BUDGET, Option.DRAFT_MODEL})
_NEEDS_DRAFT = frozenset({Option.DRAFT_MODEL})

ENTRIES = (
    Entry("plain", "one target pass per token: the reference", lambda s, g: s.plain(verifier=g.verifier)),
    Entry(
        "prompt_lookup",
        "a tree of what followed the same n-gram earlier in the prompt or the output",
        lambda s, g: s.prompt_lookup(**g.settings()),
        _BUDGET,
    ),
    Entry(
        "prompt_lookup_chain",
        "the same, following the best earlier place only",
        lambda s, g: s.prompt_lookup(**g.settings(tree=False)),
        _BUDGET,
    ),
    Entry(
        "draft_model",
        "a smaller model of the same vocabulary drafts a chain",
        lambda s, g: s.draft_model(g.draft, **g.settings()),
        _DRAFT,
        _NEEDS_DRAFT,
    ),
    Entry(
        "draft_model_tree",
        "a smaller model of the same vocabulary drafts a tree, most probable paths first",
        lambda s, g: s.draft_model(g.draft, **g.settings(tree=True)),
        _DRAFT,
        _NEEDS_DRAFT,
    ),
)
STRATEGIES = {entry.name: entry for entry in ENTRIES}


def find(name: str) -> Entry:
    """The entry of a name.

    Raises:
      SettingsError: there is none.
    """
    if name not in STRATEGIES:
        raise SettingsError(f"strategy {name!r} is not known; choose from {', '.join(STRATEGIES)}.")
    return STRATEGIES[name]


def check_needs(entry: Entry, given: set[Option]) -> None:
    """Refuses a strategy whose necessary flags are missing.

    Raises:
      SettingsError: naming the flag.
    """
    for option in entry.needs - given:
        raise SettingsError(f"strategy {entry.name} needs {option.value}; add it, or choose another strategy.")


def check_uses(entry: Entry, given: set[Option]) -> None:
    """Refuses flags that a strategy would ignore.

    Raises:
      SettingsError: naming the flag and strategies that use it.
    """
    for option in sorted(given - entry.takes, key=lambda one: one.value):
        users = [other.name for other in ENTRIES if option in other.takes]
        raise SettingsError(
            f"strategy {entry.name} does not use {option.value}; drop it, or choose one of {', '.join(users)}."
        )


def make(entry: Entry, given: Given) -> Strategy:
    """Builds the strategy."""
    from specdec import strategies

    return entry.make(strategies, given)
