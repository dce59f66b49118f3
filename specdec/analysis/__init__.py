"""Measuring and drawing: comparisons with plain decoding, the split of a round, compilations, memory, trees.

Leaves out: decoding itself (`specdec.decoding`).
"""

from specdec.analysis.compare import Comparison, compare
from specdec.analysis.compile_counter import CompileCounter
from specdec.analysis.draw import tree_html, tree_text
from specdec.analysis.memory import PeakMemory
from specdec.analysis.profile import RoundSplit, round_split
from specdec.analysis.prompts import LabelledPrompt, read_prompts, shipped_prompts, take_evenly
from specdec.analysis.report import comparison_report, result_report
from specdec.analysis.rows import Row
from specdec.analysis.ties import FirstDifference, is_tie, judge

__all__ = [
    "Comparison",
    "CompileCounter",
    "FirstDifference",
    "LabelledPrompt",
    "PeakMemory",
    "RoundSplit",
    "Row",
    "compare",
    "comparison_report",
    "is_tie",
    "judge",
    "read_prompts",
    "result_report",
    "round_split",
    "shipped_prompts",
    "take_evenly",
    "tree_html",
    "tree_text",
]
