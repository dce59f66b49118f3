"""Drafters: who proposes tokens."""

from specdec.drafters.draft_model import DraftModel
from specdec.drafters.none import NoDrafter, Stateless
from specdec.drafters.prompt_lookup import PromptLookup
from specdec.drafters.protocol import Drafter
from specdec.drafters.scripted import Script, Scripted

__all__ = ["DraftModel", "Drafter", "NoDrafter", "PromptLookup", "Script", "Scripted", "Stateless"]
