"""`kvorum chaos check HISTORY`: the verdict on a recorded run."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import msgspec

from kvorum.chaos.checker import Figures, Verdict, Violation
from kvorum.chaos.checker import check as judge
from kvorum.chaos.history import AnyEvent, BrokenHistory, Finish, HistoryReader, Start
from kvorum.cli.output import Exit, output_option, show, table
from kvorum.cli.progress import Step, bar

VALUES_PRINTED_MAX = 20
CHUNK_BYTES = 1 << 20


@click.command()
@click.argument("history", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@output_option
@click.option("--ww", is_flag=True, help="Also look for cycles through the order of writes (Kafka allows them).")
@click.option(
    "--strict", is_flag=True, help="Loss is legal only if the whole ISR at acknowledgement time lost its data."
)
def check(history: Path, output: str, ww: bool, strict: bool) -> None:
    """Check the history of a run, one JSON object per line.

    Exit code 0: no violations; 1: violations; 2: the file is not a history or has no operations.

    \b
    kvorum chaos check history.jsonl                                    every violation with its operations
    kvorum chaos check history.jsonl -o json | jq .figures.longest_gap  one figure
    """
    reader = HistoryReader()
    try:
        with bar(lines_in(history), "events") as done:
            seen = LineKinds(done)
            verdict = judge(seen.watch(reader.read(history)), ww=ww, strict=strict)
    except (BrokenHistory, OSError) as error:
        click.echo(f"{history}: {error}", err=True)
        sys.exit(Exit.USAGE)
    for remark in [*remarks(reader), *seen.lacks()]:
        click.echo(f"{history}: {remark}", err=True)
    if not verdict.figures.operations:
        click.echo(f"{history}: it has no completed operation to judge", err=True)
        sys.exit(Exit.USAGE)
    if output != "table":
        show({"valid": verdict.valid, **msgspec.to_builtins(verdict, str_keys=True)}, output)
    else:
        print_verdict(verdict)
    sys.exit(Exit.DONE if verdict.valid else Exit.FAILED)


def lines_in(history: Path) -> int:
    """Return the number of lines of a history, for a progress bar."""
    if not sys.stderr.isatty():
        return 0
    with history.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(CHUNK_BYTES), b""))


class LineKinds:
    """Notes which kinds of lines a history has, while they pass by."""

    def __init__(self, progress: Step) -> None:
        """Create it empty; `progress` is called for each line."""
        self._kinds: set[type[AnyEvent]] = set()
        self._progress = progress

    def watch(self, events: Iterable[AnyEvent]) -> Iterator[AnyEvent]:
        """Yield the events as they come."""
        for event in events:
            self._kinds.add(type(event))
            self._progress(1)
            yield event

    def lacks(self) -> list[str]:
        """Return the parts that a complete history has and this one lacks."""
        lacking: list[str] = []
        if not self._kinds:
            lacking.append("it has no line of a known kind")
        if Start not in self._kinds:
            lacking.append("it has no start event: nodes, topics and configs are unknown")
        if Finish not in self._kinds:
            lacking.append("it has no finish event: the run did not complete, so its later results are missing")
        return lacking


def remarks(reader: HistoryReader) -> list[str]:
    """Return notes on the file for the reader of the verdict."""
    found: list[str] = []
    if reader.torn:
        found.append("the last line is incomplete, because the run ended during the write; all other lines are checked")
    if reader.unknown_kinds:
        kinds = ", ".join(f"{kind} ({count})" for kind, count in reader.unknown_kinds.most_common())
        found.append(f"lines of unknown kinds were ignored: {kinds}")
    if reader.unknown_fields:
        fields = ", ".join(f"{name} ({count})" for name, count in reader.unknown_fields.most_common())
        found.append(f"unknown fields were ignored: {fields}")
    return found


def print_verdict(verdict: Verdict) -> None:
    """Print the verdict for people: violations, then legal anomalies, then figures."""
    _print_findings("VIOLATION", verdict.violations)
    _print_findings("explained", verdict.explained)
    _print_figures(verdict.figures)
    if verdict.figures.not_judged:
        click.echo("\n" + "\n".join(f"Not judged: {sentence}" for sentence in verdict.figures.not_judged))
    count = sum(violation.count for violation in verdict.violations)
    legal = sum(explained.count for explained in verdict.explained)
    outcome = "no violation was found" if verdict.valid else f"{count} violation{'s' * (count > 1)}"
    click.echo(f"\nVerdict: {outcome}; {legal} legal anomalies")


def _print_findings(title: str, findings: list[Violation]) -> None:
    for finding in findings:
        where = f" in {finding.partition}" if finding.partition else ""
        times = f" x {finding.count}" if finding.count > 1 else ""
        click.echo(f"{title} {finding.anomaly}{where}{times}")
        click.echo(f"  {finding.reason}")
        if finding.values:
            shown = ", ".join(map(str, finding.values[:VALUES_PRINTED_MAX]))
            more = f" and {finding.count - VALUES_PRINTED_MAX} more" if finding.count > VALUES_PRINTED_MAX else ""
            click.echo(f"  values: {shown}{more}")
        for sentence in finding.story:
            click.echo(f"    {sentence}")
        click.echo()


def _print_figures(figures: Figures) -> None:
    rows = [
        {"operation": f, "ok": counts.get("ok", 0), "fail": counts.get("fail", 0), "info": counts.get("info", 0)}
        for f, counts in figures.operations.items()
    ]
    table(rows, ("operation", "ok", "fail", "info"))
    click.echo()
    show(
        {
            "duration": f"{figures.duration:.1f} s",
            "sent": figures.sends,
            "acknowledged": figures.acked,
            "read": figures.records_read,
            "lost": f"{figures.lost} ({figures.lost_legally} of them legally)",
            "duplicated": figures.duplicated,
            "reordered": figures.reordered,
            "longest gap": f"{figures.longest_gap:.3f} s, from {figures.longest_gap_at:.3f} s",
            "longest lag": f"{figures.lag_max:.3f} s",
            "final reads": "yes" if figures.final_reads else "no",
        },
        "table",
    )
    if figures.faults:
        click.echo()
        faults = [
            {
                "at": f"{fault.begin:.3f}",
                "fault": fault.fault,
                "targets": ", ".join(fault.targets),
                "first ack": "-" if fault.first_ack is None else f"{fault.first_ack:.3f}",
                "unavailable": f"{fault.unavailable:.3f}",
                "partition": fault.unavailable_partition,
            }
            for fault in figures.faults
        ]
        table(faults, ("at", "fault", "targets", "first ack", "unavailable", "partition"))
