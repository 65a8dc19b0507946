"""Texts of the report: the outcome of a run, anomalies in plain language, formatted numbers."""

import shlex
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from kvorum.chaos.checker import Verdict, Violation
from kvorum.chaos.history import Start

UNFINISHED: Final = "the history is incomplete: it has no finish event"

SENTENCE_MAX: Final = 320
"""Length of the sentence about a violation, in characters; its details have the rest."""

PLAIN: Final[dict[str, str]] = {
    "lost-write": "an acknowledged record is lost",
    "unseen": "no reader received an acknowledged record",
    "duplicate": "a record is in the log twice",
    "acked-twice": "two sends were acknowledged with the same offset",
    "missing-offset": "a send with acks=all was acknowledged without an offset",
    "acked-below-min-isr": "a send was acknowledged with fewer in-sync replicas than min.insync.replicas",
    "inconsistent-offsets": "an offset has different records",
    "aborted-read": "a record was read although its send or transaction failed",
    "unknown-value": "a record was read that was never sent",
    "poll-skip": "a reader skipped a record",
    "int-poll-skip": "one poll skipped a record",
    "nonmonotonic-poll": "a reader moved backwards",
    "int-nonmonotonic-poll": "one poll moved backwards",
    "nonmonotonic-send": "a producer's records are not in the order of its sends",
    "int-nonmonotonic-send": "a transaction's records are not in the order of its sends",
    "send-skip": "records of other producers are between consecutive records of a producer",
    "int-send-skip": "other records are between the records of a transaction",
    "precommitted-read": "a record was read before its transaction committed",
    "realtime-order": "a record precedes one that was acknowledged before it was sent",
    "torn-transaction": "a transaction was visible in part",
    "open-read": "read_committed returned a record of an open transaction",
    "hanging-transaction": "a transaction never ended: the last stable offset of its partition does not advance",
    "bank-sum": "amounts do not sum to zero: transactions were visible in part",
    "processed-twice": "a source record has two results",
    "never-processed": "a source record has no result although the group's offset is beyond it",
    "copy-order": "results are not in the order of their source records",
    "two-owners": "a partition had two owners in a group",
    "stale-commit": "a group accepted a commit of an ended generation",
    "offset-lost": "an acknowledged offset commit is lost",
    "offset-regression": "a group's committed offset moved backwards",
    "aborted-offset": "the committed offset is that of an aborted transaction",
    "open-offset": "the committed offset is that of an open transaction",
    "unknown-offset": "the returned offset was never committed",
    "unclean-election": "a leader outside the ISR was elected",
    "two-leaders": "a leader epoch had two leaders",
    "replica-divergence": "replicas have different bytes at an offset",
    "epoch-divergence": "replicas have different leader epochs",
    "missing-on-replica": "a replica lacks an acknowledged record",
    "image-divergence": "nodes have different metadata at an offset",
    "G1c": "operations depend on each other in a cycle",
    "G1c-realtime": "operations depend on each other in a cycle, real time included",
}
"""Meaning of an anomaly, by the checker's name."""

DUPLICATES: Final = frozenset({"duplicate"})
REORDERINGS: Final = frozenset({"nonmonotonic-send", "int-nonmonotonic-send", "realtime-order"})
"""Anomalies that the figures count as duplicated and as reordered."""


class Outcome(StrEnum):
    """Outcome of a run."""

    HELD = "held"
    VIOLATED = "violated"
    MISSED = "missed"
    """No violation, but an expectation of the scenario was not met."""
    COULD_NOT_RUN = "could not run"
    SKIPPED = "skipped"


def outcome_of(verdict: Verdict | None, failures: Sequence[str] = (), could_not_run: str | None = None) -> Outcome:
    """Return the outcome of a run. A violation takes precedence over an incomplete run."""
    if verdict is not None and verdict.violations:
        return Outcome.VIOLATED
    if could_not_run is not None or verdict is None or not verdict.figures.operations:
        return Outcome.COULD_NOT_RUN
    return Outcome.MISSED if failures else Outcome.HELD


def outcome_sentence(
    outcome: Outcome, verdict: Verdict, failures: Sequence[str] = (), could_not_run: str | None = None
) -> str:
    """Return the outcome in a sentence or two."""
    figures = verdict.figures
    lost_illegally = figures.lost - figures.lost_legally
    match outcome:
        case Outcome.VIOLATED:
            found = sum(violation.count for violation in verdict.violations)
            kinds = ", ".join(dict.fromkeys(violation.anomaly for violation in verdict.violations))
            lost = f" {plural(lost_illegally, 'acknowledged record')} lost." if lost_illegally else ""
            also = f" The run did not complete: {could_not_run}" if could_not_run else ""
            return f"{plural(found, 'violation')}: {kinds}.{lost}{also}"
        case Outcome.COULD_NOT_RUN | Outcome.SKIPPED:
            why = could_not_run or "the history has no completed operation"
            so_far = " No violation was found until then." if figures.operations else ""
            return f"{why[:1].upper()}{why[1:]}.{so_far}"
        case Outcome.MISSED:
            return "No violation was found, but an expectation was not met: " + "; ".join(failures)
        case Outcome.HELD:
            if not figures.acked:
                return "No violation was found, but nothing was acknowledged, so the result has little value."
            if figures.lost:
                return f"No violation. {plural(figures.lost, 'acknowledged record')} lost, all legally."
            return f"All {number(figures.acked)} acknowledged records exist once and in order."


def has_violation(verdict: Verdict, anomalies: frozenset[str]) -> bool:
    """Return whether the violations include one of these anomalies."""
    return any(found.anomaly in anomalies for found in verdict.violations)


def is_explained(verdict: Verdict, anomalies: frozenset[str]) -> bool:
    """Return whether any of these anomalies was found and all of them were legal."""
    return not has_violation(verdict, anomalies) and any(found.anomaly in anomalies for found in verdict.explained)


def tell(violation: Violation) -> str:
    """Return a violation in a sentence."""
    plain = PLAIN.get(violation.anomaly, violation.anomaly)
    where = f" ({violation.partition})" if violation.partition else ""
    return clip_text(f"At {violation.t:.3f} s, {plain}{where}: {violation.reason}", SENTENCE_MAX)


def command(start: Start) -> str:
    """Return the command that runs a scenario again with its seed."""
    if start.command:
        return start.command
    if start.scenario == "simulation" and start.seed is not None:
        return f"python -m sim --seed {start.seed}"
    seed = f" --seed {start.seed}" if start.seed is not None else ""
    return f"kvorum chaos run {shlex.quote(start.scenario or 'SCENARIO')}{seed}"


def number(value: int) -> str:
    """Return a count with separated thousands."""
    return f"{value:,}"


def plural(count: int, noun: str) -> str:
    """Return "1 fault" or "2 faults"."""
    return f"{number(count)} {noun}{'' if count == 1 else 's'}"


def seconds(value: float | None) -> str:
    """Return a duration with three significant digits; "-" for an unknown one."""
    if value is None:
        return "-"
    if value <= 0:
        return "0 s"
    if value < 0.9995:
        return f"{value * 1000:.3g} ms"
    return f"{value:.3g} s" if value < 100 else f"{value:,.0f} s"


def unbroken(text: str) -> str:
    """Return a text without line breaks between its words."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def clip_text(text: str, length: int) -> str:
    """Return a text of limited length."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"
