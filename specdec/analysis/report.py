"""Results and comparisons as rich tables, for terminals and notebooks.

Leaves out: plots, and every number that is not in `Result` or `Row` already.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from specdec.analysis.compare import Comparison
from specdec.analysis.profile import STAGES
from specdec.analysis.rows import ALL, Row
from specdec.analysis.ties import FirstDifference
from specdec.decoding.result import Result

NONE = "-"
DEPTHS = 8  # printed; the row has all of them
LEFT = ("accepted by depth", "fallbacks")  # columns of text


def comparison_report(comparison: Comparison, *, by_category: bool = False) -> RenderableType:
    """Three tables (output, drafting, cost), first differences, and what needs attention.

    Args:
      comparison: from `compare`.
      by_category: also the rows of single categories.
    """
    rows = comparison.rows if by_category else comparison.totals
    title = f"{comparison.model}, {comparison.settings['prompts']} prompt(s)"
    parts: list[RenderableType] = [output_table(rows, title), drafting_table(rows), cost_table(rows)]
    parts += difference_lines(comparison.totals)
    parts += [Text(f"peak memory: {comparison.environment['peak_memory']}", style="dim")]
    parts += [warning_panel(message) for message in attention(comparison)]
    return Group(*parts)


def output_table(rows: Sequence[Row], title: str | None = None) -> Table:
    """Whether the output is plain decoding's, how many passes it took, and how fast it came."""
    columns = ("nodes", "identical", "tokens", "passes", "tokens/pass", "decode tok/s", "speed-up")
    table = _table(title, rows, columns)
    for row in rows:
        table.add_row(
            *_names(row, rows),
            str(row.nodes),
            f"{row.identical}/{row.prompts}",
            str(row.tokens),
            str(row.target_passes),
            _number(row.tokens_per_pass, 2),
            _number(row.tok_per_s, 1),
            NONE if row.speedup is None else f"{row.speedup:.2f}x",
        )
    return table


def drafting_table(rows: Sequence[Row]) -> Table:
    """What was drafted and kept, and why a round drafted nothing."""
    table = _table(None, rows, ("drafted", "accepted", *LEFT))
    for row in rows:
        depths = [f"{share:.2f}".removeprefix("0") for share in row.accepted_by_depth]
        table.add_row(
            *_names(row, rows),
            str(row.drafted),
            f"{row.accepted} ({row.accepted / row.drafted:.0%})" if row.drafted else str(row.accepted),
            " ".join([*depths[:DEPTHS], "..."] if len(depths) > DEPTHS else depths) or NONE,
            ", ".join(f"{reason} {count}" for reason, count in row.fallbacks.items()) or NONE,
        )
    return table


def cost_table(rows: Sequence[Row]) -> Table:
    """Time before the first token, stages of a round, memory, compilations."""
    stages = STAGES if any(row.round_split_ms is not None for row in rows) else ()
    columns = ("first token ms", "prefill tok/s", *(f"{stage} ms" for stage in stages))
    table = _table(None, rows, (*columns, "peak MiB", "extra MiB", "compiled"))
    for row in rows:
        table.add_row(
            *_names(row, rows),
            _number(row.ttft_ms, 0),
            _number(row.prefill_tok_per_s, 0),
            *(_number(getattr(row.round_split_ms, stage, None), 1) for stage in stages),
            _mebibytes(row.peak_memory_bytes),
            _mebibytes(row.extra_memory_bytes),
            str(row.compilations_after_warmup),
        )
    return table


def difference_lines(rows: Iterable[Row]) -> list[Text]:
    """One line per prompt whose ids are not plain decoding's."""
    return [
        Text(
            f"{row.strategy} {row.budget}, prompt {one.prompt}: {describe(one, exact=row.exact)}",
            style="yellow" if one.tie or not row.exact else "bold red",
        )
        for row in rows
        for one in row.first_differences
    ]


def describe(difference: FirstDifference, *, exact: bool = True) -> str:
    """A first difference in words."""
    where = f"first difference at returned id {difference.position}"
    if not exact:
        return f"{where}; this verifier need not repeat plain decoding"
    if difference.gap is None:
        return f"{where}: one output ends there and the other goes on. NOT A TIE"
    numbers = f"plain decoding's best two differ by {difference.gap:.2e}, passes by up to {difference.spread or 0:.2e}"
    return f"{where}; {numbers}: {'a tie' if difference.tie else 'NOT A TIE'}"


def attention(comparison: Comparison) -> list[str]:
    """What must not be overlooked: wrong output, drafters that were never used, compilations."""
    found = [
        f"WRONG OUTPUT: {row.strategy} with budget {row.budget} differs from plain decoding on "
        f"{sum(not one.tie for one in row.first_differences)} of {row.prompts} prompt(s); rounding does not explain it."
        for row in comparison.faults
    ]
    found += [
        f"NO SPECULATION: {row.strategy} with budget {row.budget} was chosen but never drafted anything "
        f"({', '.join(row.fallbacks) or 'no pass after prefill'}); its numbers are those of plain decoding."
        for row in comparison.idle
    ]
    found += [
        f"{row.strategy} with budget {row.budget} compiled {row.compilations_after_warmup} program(s) after warm-up; "
        "its times are not trustworthy."
        for row in comparison.totals
        if row.compilations_after_warmup
    ]
    return found


def warning_panel(message: str) -> Panel:
    """A loud message."""
    return Panel(Text(message, style="bold"), title="attention", border_style="red", box=box.ASCII)


def result_report(result: Result) -> RenderableType:
    """A result's text, its summary and what its rounds did."""
    table = Table(box=box.SIMPLE, title="rounds")
    for name in ("round", "drafted", "accepted", "committed", "deepest", "fallback"):
        table.add_column(name, justify="left" if name == "fallback" else "right")
    for index, record in enumerate(result.rounds):
        numbers = (index, record.drafted, record.accepted, record.committed, record.deepest)
        table.add_row(*map(str, numbers), record.fallback or "")
    return Group(Text(result.text), table, Text(result.summary(), style="bold"))


def to_html(renderable: RenderableType, width: int = 160) -> str:
    """HTML of anything rich can draw, for notebooks."""
    console = Console(record=True, width=width, file=io.StringIO(), force_jupyter=False)
    console.print(renderable)
    return console.export_html(inline_styles=True, code_format="<pre style='line-height:1.2'>{code}</pre>")


def _table(title: str | None, rows: Sequence[Row], columns: Iterable[str]) -> Table:
    table = Table(box=box.SIMPLE, title=title)
    table.add_column("strategy", no_wrap=True)
    table.add_column("budget", justify="right")
    if any(row.category != ALL for row in rows):
        table.add_column("category", no_wrap=True)
    for name in columns:
        table.add_column(name, justify="left" if name in LEFT else "right")
    return table


def _names(row: Row, rows: Sequence[Row]) -> list[str]:
    names = [row.strategy, str(row.budget)]
    return [*names, row.category] if any(other.category != ALL for other in rows) else names


def _number(value: float | None, digits: int) -> str:
    return NONE if value is None else f"{value:.{digits}f}"


def _mebibytes(value: int | None) -> str:
    return NONE if value is None else f"{value / 2**20:.0f}"
