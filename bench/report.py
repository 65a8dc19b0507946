"""Figures of both systems as they come, the systems alternating, and the table for docs/measurements.md at the end."""

import argparse
import json
import os
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from bench.stalled import StalledError
from bench.systems import MAKERS

Results = dict[tuple[str, str], list[float]]
"""{(what, which system): one figure a run}."""
RATE = re.compile(r"\ba second\b|/s$")
"""More is better of what is called so: of all else, less."""


RUNS_SHOWN_MAX = 6


class Report:
    """Collects figures, and says each as it comes."""

    def __init__(self) -> None:
        self.figures: Results = defaultdict(list)
        self.failures: list[str] = []

    def add(self, what: str, kind: str, figure: float) -> None:
        """Take one figure."""
        self.figures[what, kind].append(figure)
        print(f"  {kind:7} {what}: {figure:,.2f}   (load {os.getloadavg()[0]:.2f})", flush=True)

    def fail(self, what: str) -> None:
        """Take note of a measurement that came to nothing; the others go on."""
        self.failures.append(what)
        print(f"  FAILED {what}", flush=True)

    def table(self) -> str:
        """Return the markdown table: medians, all runs, and the ratio Kafka to Kvorum, or the other way for rates."""
        lines = ["| what | Kvorum | Apache Kafka 4.3.0 | Kvorum is better by |", "| --- | --- | --- | --- |"]
        for what in dict.fromkeys(what for what, _ in self.figures):
            own, other = self.figures.get((what, "kvorum"), []), self.figures.get((what, "kafka"), [])
            lines.append(f"| {what} | {shown(own)} | {shown(other)} | {ratio(what, own, other)} |")
        return "\n".join(lines)


def shown(figures: Sequence[float]) -> str:
    """Return the median, and the runs where there were several: all, or if they are many how many, and the ends."""
    if not figures:
        return "-"
    middle = round_off(statistics.median(figures))
    if len(figures) == 1:
        return middle
    if len(figures) > RUNS_SHOWN_MAX:
        return f"{middle} ({len(figures)} runs, {round_off(min(figures))} to {round_off(max(figures))})"
    return f"{middle} ({', '.join(map(round_off, figures))})"


def round_off(figure: float) -> str:
    """Return three digits or so."""
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.1f}" if figure >= 10 else f"{figure:.2f}"


def ratio(what: str, own: Sequence[float], other: Sequence[float]) -> str:
    """Return how many times better Kvorum is: below 1 it is worse."""
    if not own or not other:
        return "-"
    first, second = statistics.median(own), statistics.median(other)
    if RATE.search(what):
        first, second = second, first
    return f"{second / first:.2f}x" if first else "-"


def alternating(kinds: Sequence[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Return (round, system) from round 1 on: A-B-B-A-A-B, so that what drifts with time falls on both."""
    for number in range(1, rounds + 1):
        for kind in kinds if number % 2 else reversed(kinds):
            yield number, kind


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what every comparison can be told."""
    parser.add_argument("--rounds", type=int, default=3, help="runs of each figure, the systems alternating")
    parser.add_argument("--only", choices=sorted(MAKERS), help="one system")
    parser.add_argument("--json", help="a file for all figures")


def compare(options: argparse.Namespace, steps: Mapping[str, Callable[[str, Report], None]]) -> None:
    """Take each step of both systems in turn, print the table, and exit 1 if something came to nothing."""
    kinds = [options.only] if options.only else list(MAKERS)
    report = Report()
    print(f"before: {machine()}", flush=True)
    for step, measure in steps.items():
        for number, kind in alternating(kinds, options.rounds):
            print(f"{step}, round {number}", flush=True)
            try:
                measure(kind, report)
            except StalledError as error:
                report.fail(f"round {number}, {step}, {kind}: {error}")
    finish(report, options.json)


def finish(report: Report, path: str | None) -> None:
    """Print the table, write the figures to a file if one is named, and exit 1 if something came to nothing."""
    print(f"\nafter: {machine()}\n\n{report.table()}")
    if path:
        body = [{"what": what, "system": kind, "runs": runs} for (what, kind), runs in report.figures.items()]
        Path(path).write_text(json.dumps(body, indent=1) + "\n")
    if report.failures:
        sys.exit("\n".join(report.failures))


def machine() -> str:
    """Say what it was measured on."""
    models = [line.partition(":")[2].strip() for line in read_lines("/proc/cpuinfo") if line.startswith("model name")]
    memory = next(int(line.split()[1]) for line in read_lines("/proc/meminfo") if line.startswith("MemTotal"))
    load = ", ".join(f"{each:.2f}" for each in os.getloadavg())
    model = models[0] if models else "unknown"
    version = sys.version.split()[0]
    return f"{os.cpu_count()} cores ({model}), {memory / 2**20:.0f} GiB, Python {version}; load {load}"


def read_lines(path: str) -> Iterable[str]:
    """Return a file's lines."""
    return Path(path).read_text().splitlines()
