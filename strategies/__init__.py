"""Ready strategies: one short file each. Copy one, swap a part, and pass the result to `specdec.generate`."""

from specdec.strategies.draft_model import draft_model
from specdec.strategies.plain import plain
from specdec.strategies.prompt_lookup import prompt_lookup

__all__ = ["draft_model", "plain", "prompt_lookup"]
