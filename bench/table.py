"""The table of the figures, in Markdown: for docs/benchmark.md between two markers, or on standard output.

python -m bench.table build/bench/results.json [--all] [--page docs/benchmark.md]
"""

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path

from bench.results import Results, RowResult, read
from bench.rows import spread

BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
NONE = "-"
SIGNS = {"more": "≥", "less": "≤"}
WORDS = {"no": "**no**"}
LAG_HEAD = "| event-loop lag of Kvorum's slowest process, ms: while | p99 | at most |"
LAG_RULE = "| --- | --- | --- |"


def table(results: Results, every: bool = False) -> str:
    """Return the table of the rows with targets, or of all."""
    rows = [found for found in results.rows if found.runs and (every or found.row.must is not None)]
    peer = peers(results)
    names = ["Kvorum", f"Apache Kafka {results.facts.get('kafka', '')}", *([peer] if peer else [])]
    columns = ["what", *names, "ratio", "must", "aim", "reached"]
    lines = [cells_of(columns), cells_of(["---"] * len(columns)), *(line(found, bool(peer)) for found in rows)]
    return "\n".join(lines)


def lag_table(results: Results) -> str:
    """Return how late the event loops were in each case: the medians of the runs; nothing if none is known."""
    lines = [
        f"| {case} | {shown([p99 for p99, _ in runs])} | {shown([greatest for _, greatest in runs])} |"
        for measure in results.measures
        for case, runs in measure.event_loop_lag.items()
    ]
    return "\n".join([LAG_HEAD, LAG_RULE, *lines]) if lines else ""


def peers(results: Results) -> str:
    """Return the name of the additional system; empty if there is none."""
    return ", ".join(sorted({measure.facts["peer"] for measure in results.measures if "peer" in measure.facts}))


def cells_of(texts: Sequence[str]) -> str:
    """Return a line of the table."""
    return f"| {' | '.join(texts)} |"


def line(found: RowResult, has_peer: bool = False) -> str:
    """Return a row's line."""
    row = found.row
    unit = "" if row.of == "ratio" else f" {row.unit}"
    limits = [NONE if limit is None else f"{SIGNS[row.better]} {limit:g}{unit}" for limit in (row.must, row.aim)]
    ratio = NONE if found.ratio is None else f"{found.ratio:.2f}"
    verdict = WORDS.get(found.reached, found.reached)
    figures = [found.own, found.other, *([found.peer] if has_peer else [])]
    return cells_of([f"{row.what}, {row.unit}", *map(shown, figures), ratio, *limits, verdict])


def shown(figures: Sequence[float]) -> str:
    """Return the median, followed by the spread of the runs."""
    if not figures:
        return NONE
    middle = round_off(statistics.median(figures))
    return middle if len(figures) == 1 else f"{middle} ({spread(figures):.0%})"


def round_off(figure: float) -> str:
    """Return three digits or so."""
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.1f}" if figure >= 10 else f"{figure:.2f}"


def section(results: Results) -> str:
    """Return the text between the markers: the table, and notes on it."""
    rounds = sorted({measure.facts.get("rounds", 0) for measure in results.measures})
    limits = "; ".join(f"{what} {round_off(figure)}" for what, figure in results.limits.items())
    reached = [found.reached for found in results.rows if found.reached != NONE]
    counted = (
        f"{len(reached)} rows, of which {reached.count('aim')} reach the aim and {reached.count('no')} not the must."
    )
    lines = [
        table(results),
        "",
        f"Medians of {' or '.join(map(str, rounds))} runs, the systems in turn (A-B-B-A), with their spread in "
        f"brackets ((largest - smallest) / median). {counted}",
        f"Commits: {commits(results)}. Machine: {results.facts.get('machine', 'unknown')}. Its limits: {limits}.",
    ]
    failures = [f"Failed: {failure}" for failure in results.failures]
    return "\n".join([*lines, *failures])


def commits(results: Results) -> str:
    """Return the measured commit, and the measures of each if there are several."""
    found: dict[str, list[str]] = {}
    for measure in results.measures:
        found.setdefault(measure.facts.get("commit", "unknown"), []).append(measure.name)
    if len(found) < 2:
        return "".join(found)
    return "; ".join(f"{commit} ({', '.join(names)})" for commit, names in found.items())


def put_between(text: str, new: str) -> str:
    """Replace a document's text between its markers. Raises ValueError."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"there is no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{new}\n{END}{after}"


def main() -> None:
    """Print the table, or put it into a document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--all", action="store_true", help="with rows without targets")
    parser.add_argument("--page", type=Path, help="put it between this document's markers")
    options = parser.parse_args()
    results = read(options.results)
    if options.page is None:
        print(table(results, options.all))
        if options.all and (lags := lag_table(results)):
            print(f"\n{lags}")
        return
    options.page.write_text(put_between(options.page.read_text(), section(results)))


if __name__ == "__main__":
    main()
