"""Result tables of `make chaos` and `python -m sim.mutants`, as text and as JSON."""

import json
from collections.abc import Sequence
from typing import Final

from kvorum.chaos.report.gaps import worst_gap
from kvorum.chaos.report.labels import DUPLICATES, REORDERINGS, Outcome, is_explained, number, seconds
from kvorum.chaos.report.results import MutantResult, ScenarioResult

SCENARIO_COLUMNS: Final = (
    "scenario",
    "faults by kind",
    "operations",
    "acknowledged",
    "lost",
    "duplicated",
    "reordered",
    "worst gap under a fault",
    "verdict",
)
MUTANT_COLUMNS: Final = ("mutant", "mistake", "caught by", "after")
NUMBERS: Final = frozenset({*SCENARIO_COLUMNS[2:8]})
"""Columns that are aligned to the right."""


def scenario_table(results: Sequence[ScenarioResult]) -> str:
    """Return one line per run, and a total."""
    rows = [_scenario_cells(result) for result in results]
    held = sum(result.outcome == Outcome.HELD for result in results)
    skipped = sum(result.outcome == Outcome.SKIPPED for result in results)
    end = f"{held} of {len(results)} held" + (f", {skipped} skipped" if skipped else "")
    return text_table(SCENARIO_COLUMNS, rows) + f"\n{end}\n"


def mutant_table(results: Sequence[MutantResult]) -> str:
    """Return one line per mutant, and a total."""
    rows = [(each.name, each.wrong, each.caught_by or "NOT CAUGHT", _effort(each)) for each in results]
    caught = sum(each.caught_by is not None for each in results)
    return text_table(MUTANT_COLUMNS, rows) + f"\n{caught} of {len(results)} caught\n"


def mutants_json(results: Sequence[MutantResult]) -> str:
    """Return the mutants as a JSON array of objects."""
    rows = [
        {
            "mutant": each.name,
            "wrong": each.wrong,
            "caught": each.caught_by is not None,
            "caught_by": each.caught_by,
            "seeds": each.seeds,
            "seconds": each.seconds,
        }
        for each in results
    ]
    return json.dumps(rows, indent=2) + "\n"


def unavailability(result: ScenarioResult) -> float | None:
    """Return the worst gap under a fault in seconds; None without sends."""
    if result.verdict is None or not result.verdict.figures.partitions:
        return None
    return worst_gap(result.verdict.figures).seconds


def text_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return aligned rows below their column names, one line per row."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    lines: list[str] = []
    for row in (tuple(name.upper() for name in columns), *rows):
        cells = [
            text.rjust(width) if name in NUMBERS else text.ljust(width)
            for name, text, width in zip(columns, row, widths, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def _scenario_cells(result: ScenarioResult) -> tuple[str, ...]:
    verdict = result.verdict
    outcome = _outcome_cell(result)
    if verdict is None:
        return (result.scenario, *["-"] * 7, outcome)
    figures = verdict.figures
    lost = number(figures.lost)
    if figures.lost_legally:
        lost += f" ({number(figures.lost_legally)} explained)"
    return (
        result.scenario,
        ", ".join(f"{count} {kind}" for kind, count in figures.faults_by_kind.items()) or "none",
        number(sum(sum(counts.values()) for counts in figures.operations.values())),
        number(figures.acked),
        lost,
        number(figures.duplicated) + (" (explained)" if is_explained(verdict, DUPLICATES) else ""),
        number(figures.reordered) + (" (explained)" if is_explained(verdict, REORDERINGS) else ""),
        seconds(unavailability(result)),
        outcome,
    )


def _outcome_cell(result: ScenarioResult) -> str:
    match result.outcome:
        case Outcome.VIOLATED if result.verdict is not None:
            kinds = dict.fromkeys(violation.anomaly for violation in result.verdict.violations)
            return f"VIOLATED: {', '.join(kinds)}"
        case Outcome.MISSED:
            return f"MISSED: {'; '.join(result.failures)}"
        case Outcome.COULD_NOT_RUN:
            return f"could not run: {result.could_not_run or 'no operation was completed'}"
        case Outcome.SKIPPED:
            return f"skipped: {result.skipped}"
        case _:
            return "held"


def _effort(result: MutantResult) -> str:
    parts: list[str] = []
    if result.seeds is not None:
        parts.append(f"{number(result.seeds)} seed{'' if result.seeds == 1 else 's'}")
    if result.seconds is not None:
        parts.append(seconds(result.seconds))
    return ", ".join(parts) or "-"
