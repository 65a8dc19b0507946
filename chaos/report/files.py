"""The files of one run: report.html for people, junit.xml for CI."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kvorum.chaos.checker import Verdict
from kvorum.chaos.history import Start, read_history
from kvorum.chaos.report.junit import write_junit
from kvorum.chaos.report.page import write_html
from kvorum.chaos.report.results import ScenarioResult

REPORT: Final = "report.html"
JUNIT: Final = "junit.xml"


def write(
    folder: Path,
    history_path: Path,
    verdict: Verdict,
    *,
    failures: Sequence[str] = (),
    could_not_run: str | None = None,
    seconds: float | None = None,
) -> None:
    """Write report.html and junit.xml of a run into a folder, which is created if missing.

    `failures`: expectations of the scenario that were not met, in sentences. `could_not_run`: the reason why the run
    has no end. `seconds`: its duration, by default the history's own length.

    Raises:
        BrokenHistory: the history is unreadable. OSError: a file cannot be read or written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    start = next((event for event in read_history(history_path) if isinstance(event, Start)), Start(t=0.0))
    why = write_html(
        folder / REPORT, read_history(history_path), verdict, failures=failures, could_not_run=could_not_run
    )
    result = ScenarioResult(
        scenario=start.scenario or history_path.stem,
        seed=start.seed,
        verdict=verdict,
        failures=tuple(failures),
        could_not_run=why,
        seconds=verdict.figures.duration if seconds is None else seconds,
        history=str(history_path),
    )
    write_junit(folder / JUNIT, [result])
