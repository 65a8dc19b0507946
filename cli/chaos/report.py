"""`kvorum chaos report HISTORY`: the report of a recorded run, as one HTML file."""

import sys
from pathlib import Path

import click

from kvorum.chaos.checker import check as judge
from kvorum.chaos.history import BrokenHistory, HistoryReader, Start, read_history
from kvorum.chaos.report.junit import write_junit
from kvorum.chaos.report.labels import outcome_of
from kvorum.chaos.report.page import write_html
from kvorum.chaos.report.results import ScenarioResult
from kvorum.cli.chaos.check import remarks
from kvorum.cli.output import Exit

FILE = click.Path(dir_okay=False, writable=True, path_type=Path)


@click.command()
@click.argument("history", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--output", type=FILE, default=Path("report.html"), show_default=True, help="The HTML file.")
@click.option("--junit", type=FILE, help="Also write JUnit XML for CI.")
def report(history: Path, output: Path, junit: Path | None) -> None:
    """Check the history of a run and write its report, a self-contained HTML file.

    Exit code 0: written, whatever the verdict (see `kvorum chaos check`); 2: the file is not a history.

    \b
    kvorum chaos report history.jsonl -o report.html
    kvorum chaos report history.jsonl --junit junit.xml
    """
    reader = HistoryReader()
    try:
        verdict = judge(reader.read(history))
        why = write_html(output, read_history(history), verdict, remarks=remarks(reader))
        if junit is not None:
            start = next((event for event in read_history(history) if isinstance(event, Start)), Start(t=0.0))
            result = ScenarioResult(
                scenario=start.scenario or history.stem,
                seed=start.seed,
                verdict=verdict,
                could_not_run=why,
                seconds=verdict.figures.duration,
                history=str(history),
            )
            write_junit(junit, [result])
    except (BrokenHistory, OSError) as error:
        click.echo(f"{history}: {error}", err=True)
        sys.exit(Exit.USAGE)
    click.echo(f"{output}: {outcome_of(verdict, could_not_run=why)}")
