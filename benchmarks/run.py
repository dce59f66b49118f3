"""Runs the benchmarks: `python benchmarks/run.py [NAME ...] [--json FILE]`.

Ratios are taken within one run, of calls that take turns. Leaves out: comparing with earlier runs.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import machine
from rich.console import Console

NAMES = ("read", "width", "capacity", "rounds", "steady", "long_input", "peers")


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks/run.py", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones: {', '.join(NAMES)}; all by default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything measured to a file")
    parser.add_argument("--prompts", type=Path, metavar="FILE", help="prompt file (Spec-Bench JSONL) for long_input")
    parser.add_argument("--repetitions", type=int, default=15, metavar="N", help="of every timed call (15)")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="cores to use (2)")
    parser.add_argument("--tools", type=Path, metavar="FOLDER", help="where llama.cpp is kept; the cache by default")
    parser.add_argument(
        "--xla-flags", default="none", metavar="FLAGS", help="'none' (default), 'default' (the CPU backend's), or flags"
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a goal is missed")
    found = parser.parse_args(given)
    unknown = [name for name in found.names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark is called {unknown[0]!r}; there are {', '.join(NAMES)}")
    if found.repetitions < 1 or found.threads < 1:
        parser.error("--repetitions and --threads must be at least 1")
    if found.prompts is not None and not found.prompts.is_file():
        parser.error(f"--prompts {found.prompts}: no such file")
    if found.json is not None and not found.json.absolute().parent.is_dir():
        parser.error(f"--json {found.json}: its folder does not exist")
    return found


def main() -> int:
    options = arguments()
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=140)
    warnings = [warning] if (warning := machine.use_cores(options.threads)) else []
    neighbours, load = machine.idle_check(), machine.load_average()
    console.print(f"load average {load}; other processes take {neighbours}")
    if neighbours.busy:
        warnings.append(f"the machine is busy before the start: other processes take {neighbours}")

    from specdec.cli.startup import prepare

    prepare(options.xla_flags, compile_cache=True)
    from bench import Bench, json_settings
    from findings import Finding, show

    bench = Bench(options.repetitions, options.threads, options.prompts, options.tools)
    from specdec.analysis.environment import environment

    report: dict[str, Any] = {"settings": json_settings(bench), "environment": environment(bench.model)}
    report |= {"load_average": load, "warnings": warnings, "missed": [], "failed": [], "benchmarks": {}}
    goals = 0
    for name in options.names or NAMES:
        benchmark, started = importlib.import_module(name), time.perf_counter()
        entry: dict[str, Any] = {"title": benchmark.TITLE}
        report["benchmarks"][name] = entry
        findings: list[Finding] = []
        with machine.Neighbours() as around:
            try:
                findings = benchmark.run(bench)
            except Exception as error:
                traceback.print_exc()
                entry["error"] = f"{type(error).__name__}: {error}"
                report["failed"].append(name)
        entry |= {"seconds": time.perf_counter() - started, "others": around.share}
        entry["findings"] = [one.json() for one in findings]
        if around.busy:
            warnings.append(f"{name}: other processes took {around} while it ran")
        goals += sum(one.met is not None for one in findings)
        report["missed"] += [f"{name}: {one.name.strip()}" for one in findings if one.met is False]
        show(console, f"{name}: {benchmark.TITLE} ({entry['seconds']:.0f} s; other processes took {around})", findings)
        if options.json is not None:  # after each one: a run that is cut short keeps what it has
            options.json.write_text(json.dumps(report, indent=2) + "\n")

    for warning in warnings:
        console.print(f"[bold]warning[/bold]: {warning}; the numbers may be off", soft_wrap=True)
    missed, failed = report["missed"], report["failed"]
    console.print(f"{goals - len(missed)} of {goals} goals met; failed benchmarks: {', '.join(failed) or 'none'}")
    return 1 if failed or (options.strict and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
