"""What depends on the machine: number formats, layouts, and primitives probed before they are trusted.

Importing this touches no device. Leaves out: everything that is the same on every machine.
"""

from specdec.backends.base import DTYPES, Backend, Workaround, precision_for
from specdec.backends.decide import Decision, decide_metal, is_metal
from specdec.backends.notices import notice
from specdec.backends.primitives import argmax, cumsum, scatter_rows, sort_descending, top_k, using
from specdec.backends.probes import probe_platform, run_probes
from specdec.backends.reports import Outcome, Primitive, ProbeReport, ProbeResult
from specdec.backends.select import select

__all__ = [
    "DTYPES",
    "Backend",
    "Decision",
    "Outcome",
    "Primitive",
    "ProbeReport",
    "ProbeResult",
    "Workaround",
    "argmax",
    "cumsum",
    "decide_metal",
    "is_metal",
    "notice",
    "precision_for",
    "probe_platform",
    "run_probes",
    "scatter_rows",
    "select",
    "sort_descending",
    "top_k",
    "using",
]
