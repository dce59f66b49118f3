"""Targets: the models whose distribution is reproduced exactly."""

from specdec.targets.config import Family, RotaryConfig, RotaryKind, TargetConfig
from specdec.targets.decoder import Decoder, DecoderState
from specdec.targets.params import LayerParams, TargetParams
from specdec.targets.protocol import Target

__all__ = [
    "Decoder",
    "DecoderState",
    "Family",
    "LayerParams",
    "RotaryConfig",
    "RotaryKind",
    "Target",
    "TargetConfig",
    "TargetParams",
]
