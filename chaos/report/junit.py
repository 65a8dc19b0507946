"""JUnit XML for CI systems: one test case per scenario; a failure has the details of its first violations."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from kvorum.chaos.checker import Violation
from kvorum.chaos.report.labels import Outcome, clip_text, tell
from kvorum.chaos.report.results import ScenarioResult

SUITE: Final = "kvorum.chaos"
STORIES_MAX: Final = 3
"""Violations in the text of a failure; the report has all of them."""

MESSAGE_MAX: Final = 500

_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""


def write_junit(path: Path, results: Sequence[ScenarioResult]) -> None:
    """Write the results of one campaign. A violated or missed scenario is a failure, an incomplete run is an error.

    Raises:
        OSError: the file cannot be written.
    """
    counts = {
        "tests": len(results),
        "failures": sum(result.outcome in (Outcome.VIOLATED, Outcome.MISSED) for result in results),
        "errors": sum(result.outcome == Outcome.COULD_NOT_RUN for result in results),
        "skipped": sum(result.outcome == Outcome.SKIPPED for result in results),
    }
    total = {name: str(count) for name, count in counts.items()}
    total["time"] = f"{sum(result.seconds for result in results):.3f}"
    suites = ElementTree.Element("testsuites", {"name": SUITE, **total})
    suite = ElementTree.SubElement(suites, "testsuite", {"name": SUITE, **total})
    for result in results:
        _add_case(suite, result)
    ElementTree.indent(suites)
    path.write_bytes(ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True) + b"\n")


def _add_case(suite: ElementTree.Element, result: ScenarioResult) -> None:
    fields = {"classname": SUITE, "name": _clean(result.scenario), "time": f"{result.seconds:.3f}"}
    case = ElementTree.SubElement(suite, "testcase", fields)
    violations = result.verdict.violations if result.verdict is not None else []
    match result.outcome:
        case Outcome.VIOLATED:
            more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
            _add(case, "failure", tell(violations[0]) + more, violations[0].anomaly, _stories(violations, result))
        case Outcome.MISSED:
            _add(case, "failure", "; ".join(result.failures), "expectation", "\n".join(_trailer(result)))
        case Outcome.COULD_NOT_RUN:
            message = result.could_not_run or "no operation was completed"
            _add(case, "error", message, "could-not-run", "\n".join(_trailer(result)))
        case Outcome.SKIPPED:
            ElementTree.SubElement(case, "skipped", {"message": _clean(result.skipped or "")})
        case Outcome.HELD:
            pass
    if result.verdict is not None:
        figures = result.verdict.figures
        summary = f"{figures.acked} acknowledged, {figures.lost} lost ({figures.lost_legally} legally), "
        summary += f"{figures.duplicated} duplicated, {figures.reordered} reordered"
        ElementTree.SubElement(case, "system-out").text = _clean(summary)


def _add(case: ElementTree.Element, element: str, message: str, kind: str, text: str) -> None:
    fields = {"message": _clean(clip_text(message, MESSAGE_MAX)), "type": _clean(kind)}
    ElementTree.SubElement(case, element, fields).text = _clean(text)


def _stories(violations: Sequence[Violation], result: ScenarioResult) -> str:
    lines: list[str] = []
    for violation in violations[:STORIES_MAX]:
        where = f" in {violation.partition}" if violation.partition else ""
        lines += [f"{violation.anomaly}{where}, {violation.count} in total: {violation.reason}"]
        lines += [f"    {sentence}" for sentence in violation.story]
    if len(violations) > STORIES_MAX:
        lines.append(f"and {len(violations) - STORIES_MAX} more")
    return "\n".join(lines + _trailer(result))


def _trailer(result: ScenarioResult) -> list[str]:
    lines = [f"expected: {failure}" for failure in result.failures]
    if result.could_not_run:
        lines.append(f"could not run: {result.could_not_run}")
    if result.history:
        lines.append(f"history: {result.history}")
    return lines


def _clean(text: str) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
