"""The report of a run as one self-contained HTML file."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from kvorum.chaos.checker import Verdict
from kvorum.chaos.history import AnyEvent
from kvorum.chaos.report import sections
from kvorum.chaos.report.aggregate import Aggregate, aggregate
from kvorum.chaos.report.head import HEADINGS, head
from kvorum.chaos.report.labels import UNFINISHED, outcome_of
from kvorum.chaos.report.markup import Markup, data, tag
from kvorum.chaos.report.script import SCRIPT
from kvorum.chaos.report.style import STYLE
from kvorum.chaos.report.timeline import timeline

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'"
"""Content-Security-Policy, a second line of defence if an escape is missing."""


def write_html(
    path: Path,
    events: Iterable[AnyEvent],
    verdict: Verdict,
    *,
    failures: Sequence[str] = (),
    could_not_run: str | None = None,
    remarks: Sequence[str] = (),
) -> str | None:
    """Write the report of a history and its verdict; return why the run did not complete, None if it did.

    One pass; the file has a few MB at most, however long the run.

    `failures`: expectations of the scenario that were not met, in sentences. `could_not_run`: why the run has no end.
    `remarks`: further notes for the reader of the verdict.

    Raises:
        BrokenHistory: while `events` are read. OSError: the file is not writable.
    """
    picture = aggregate(events, verdict.figures.duration, verdict.figures.acked)
    if could_not_run is None and not picture.finished:
        could_not_run = UNFINISHED
    page = render(picture, verdict, failures=failures, could_not_run=could_not_run, remarks=remarks)
    path.write_text(page, encoding="utf-8", errors="replace")
    return could_not_run


def render(
    picture: Aggregate,
    verdict: Verdict,
    *,
    failures: Sequence[str] = (),
    could_not_run: str | None = None,
    remarks: Sequence[str] = (),
) -> str:
    """Return the page."""
    start = picture.start
    outcome = outcome_of(verdict, failures, could_not_run)
    remarks = [*failures, *remarks]
    body = tag(
        "main",
        head(picture, verdict, outcome, failures, could_not_run),
        sections.section("Timeline", timeline(picture, verdict), id="when"),
        sections.gaps(picture, verdict.figures),
        sections.findings("Violations", verdict.violations, "violations", "No violation was found."),
        sections.findings(
            "Legal anomalies with their reasons", verdict.explained, "explained", "No anomaly was found."
        ),
        sections.missing_rules(verdict.figures),
        sections.anomalies(verdict),
        sections.operations(verdict.figures),
        sections.cluster(picture, verdict.figures),
        sections.again(start, picture, remarks),
    )
    document = tag(
        "html",
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("title", f"{HEADINGS[outcome]}: {start.scenario or 'chaos report'}"),
            tag("style", Markup(STYLE)),
        ),
        tag(
            "body",
            body,
            tag("div", id="tip", hidden=True),
            data("series", _series(picture)),
            tag("script", Markup(SCRIPT)),
        ),
        lang="en",
    )
    return f"<!doctype html>\n{document}\n"


def _series(picture: Aggregate) -> dict[str, object]:
    """Return the values of the cross hair: acknowledgements and latencies (milliseconds) by bucket."""

    def milliseconds(share: float) -> list[float | None]:
        values = [picture.latency(bucket, share) for bucket in range(picture.buckets)]
        return [None if value is None else float(f"{value * 1000:.3g}") for value in values]

    return {
        "begin": picture.begin,
        "duration": picture.duration,
        "width": picture.width,
        "acks": list(picture.acks),
        "p50": milliseconds(0.5),
        "p99": milliseconds(0.99),
    }
