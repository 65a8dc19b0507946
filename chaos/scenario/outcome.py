"""Results of a run compared with the scenario's expectations: pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from kvorum.chaos.checker import Verdict
from kvorum.chaos.report.results import ScenarioResult
from kvorum.chaos.scenario.models import Scenario
from kvorum.chaos.scenario.schedule import Window, step_text
from kvorum.chaos.workload.recorder import AckedSend

HISTORY = "history.jsonl"
"""The file's name in a run's folder."""

T = TypeVar("T")


@dataclass(slots=True)
class Outcome:
    """One run. `valid`: nothing illegal, and everything as expected."""

    scenario: str
    seed: int
    folder: str
    verdict: Verdict | None = None
    failures: list[str] = field(default_factory=list)
    """Expectations that were not met, in words."""
    could_not_run: str = ""
    skipped: str = ""
    """Reason for not starting the run: a missing permission on this machine."""
    seconds: float = 0.0
    """Real time, including start and end of the cluster."""

    @property
    def history(self) -> Path:
        """Path of the history."""
        return Path(self.folder) / HISTORY

    def result(self) -> ScenarioResult:
        """Return the run as a row of tables and JUnit."""
        return ScenarioResult(
            scenario=self.scenario,
            seed=self.seed,
            verdict=self.verdict,
            failures=tuple(self.failures),
            could_not_run=self.could_not_run or None,
            skipped=self.skipped or None,
            seconds=self.seconds,
            history=str(self.history),
        )

    @property
    def valid(self) -> bool:
        """Whether there was no violation and all expectations were met."""
        return self.verdict is not None and self.verdict.valid and not self.failures and not self.could_not_run


def failed_expectations(
    scenario: Scenario, verdict: Verdict, acked: Sequence[AckedSend], windows: Sequence[Window], faults_wanted: bool
) -> list[str]:
    """Return the expectations that were not met, as sentences."""
    expect, figures = scenario.expect, verdict.figures
    found: list[str] = []
    if figures.acked < expect.acked_min:
        found.append(f"{figures.acked} sends were acknowledged, expected at least {expect.acked_min}")
    if faults_wanted and not figures.faults:
        found.append("no fault was injected")
    if expect.acked_during_faults:
        during = _count_acked(acked, [(fault.begin, fault.end) for fault in figures.faults])
        if during < expect.acked_during_faults:
            found.append(f"{during} sends were acknowledged during faults, expected {expect.acked_during_faults}")
    worst = max((each.unavailable for each in figures.partitions.values()), default=0.0)
    if expect.unavailable_max is not None and worst > expect.unavailable_max:
        found.append(f"a partition was unavailable for {worst:.2f} s, the limit is {expect.unavailable_max:g} s")
    if expect.unavailable_min is not None and worst < expect.unavailable_min:
        found.append(
            f"no partition was unavailable for {expect.unavailable_min:g} s; the longest time was {worst:.2f} s"
        )
    sends = figures.operations.get("send", {})
    failed = sends.get("fail", 0) + sends.get("info", 0)
    if expect.failed_sends_max is not None and failed > expect.failed_sends_max:
        found.append(f"{failed} sends failed or have an unknown result, the limit is {expect.failed_sends_max}")
    found += [f"error {name} did not occur" for name in expect.errors if name not in figures.errors]
    found += [f"error {name} occurred" for name in expect.errors_not if name in figures.errors]
    seen = {finding.anomaly for finding in verdict.explained}
    found += [f"no legal anomaly {name} was found" for name in expect.anomalies if name not in seen]
    return found + _losses(scenario, verdict) + [line for window in windows for line in _window(window, acked)]


def _count_acked(acked: Iterable[AckedSend], spans: Sequence[tuple[float, float | None]]) -> int:
    return sum(
        1
        for send in acked
        if any(begin <= send.invoked and (end is None or send.completed <= end) for begin, end in spans)
    )


def _losses(scenario: Scenario, verdict: Verdict) -> list[str]:
    """Compare the losses of each topic with the expectation. Illegal losses are violations in any case."""
    lost: dict[str, int] = {name: 0 for name in scenario.every_topic()}
    for partition, figures in verdict.figures.partitions.items():
        topic = partition.rpartition("-")[0]
        lost[topic] = lost.get(topic, 0) + figures.lost
    found: list[str] = []
    required: dict[str, list[str]] = {}
    for topic, count in lost.items():
        pattern, wanted = match_rule(topic, scenario.expect.topics) or ("", scenario.expect.loss)
        if wanted == "none" and count:
            found.append(f"{topic}: {count} acknowledged records are lost, expected none")
        elif wanted == "required":
            required.setdefault(pattern, []).append(topic)
    for pattern, topics in required.items():
        if not any(lost[topic] for topic in topics):
            found.append(f"{pattern or 'the run'}: no acknowledged record was lost, expected an explained loss")
    return found


def _window(window: Window, acked: Sequence[AckedSend]) -> list[str]:
    """Compare the acknowledgements within a window with the expectation."""
    inside = [send for send in acked if window.begin <= send.invoked and send.completed <= window.end]
    wanted = window.step.acked
    rules = {"": wanted} if isinstance(wanted, str) else wanted
    found: list[str] = []
    for pattern, rule in rules.items():
        count = sum(1 for send in inside if not pattern or match_rule(topic_of(send), {pattern: rule}) is not None)
        where = f"{pattern}: " if pattern else ""
        span = f"between {window.begin:.1f} and {window.end:.1f} s ({window.step.name or step_text(window.step)})"
        if rule == "some" and not count:
            found.append(f"{where}no send was acknowledged {span}, expected some")
        elif rule == "none" and count:
            found.append(f"{where}{count} sends were acknowledged {span}, expected none")
    most = window.step.acked_max
    count = sum(1 for send in acked if window.begin <= send.completed <= window.end)
    if most is not None and count > most:
        span = f"between {window.begin:.1f} and {window.end:.1f} s ({window.step.name or step_text(window.step)})"
        found.append(f"{count} sends were acknowledged {span}, the limit is {most}")
    return found


def topic_of(send: AckedSend) -> str:
    """Return the topic of a send."""
    return send.partition.rpartition("-")[0]


def match_rule(topic: str, rules: Mapping[str, T]) -> tuple[str, T] | None:
    """Return the first rule whose name is the topic, or a prefix of it with a star."""
    for pattern, rule in rules.items():
        if pattern == topic or (pattern.endswith("*") and topic.startswith(pattern[:-1])):
            return pattern, rule
    return None
