"""The page's words: the outcome of a run, anomalies in plain language, and numbers as people write them."""

import shlex
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from kvorum.chaos.checker import Verdict, Violation
from kvorum.chaos.history import Start

UNFINISHED: Final = "the history ends before the run did: it has no finish event"

SENTENCE_MAX: Final = 320
"""Letters of the one sentence about a violation; its story has the rest."""

PLAIN: Final[dict[str, str]] = {
    "lost-write": "an acknowledged record is gone",
    "unseen": "an acknowledged record was never seen by any reader",
    "duplicate": "one record is in the log twice",
    "acked-twice": "two sends were acknowledged at one offset",
    "missing-offset": "a send was acknowledged by the ISR without an offset",
    "acked-below-min-isr": "a send was acknowledged though too few replicas were in sync",
    "inconsistent-offsets": "one offset held different records",
    "aborted-read": "a record was read that had been refused for certain",
    "unknown-value": "a record was read that was never sent",
    "poll-skip": "a reader went past a record",
    "int-poll-skip": "one poll went past a record",
    "nonmonotonic-poll": "a reader went backwards",
    "int-nonmonotonic-poll": "one poll went backwards",
    "nonmonotonic-send": "a producer's records are in another order than it sent them",
    "int-nonmonotonic-send": "one transaction's records are in another order than it sent them",
    "send-skip": "other records are between those that a producer sent one after the other",
    "int-send-skip": "other records are between those that a transaction sent",
    "precommitted-read": "a record was read before its transaction committed",
    "realtime-order": "a record is before one that was acknowledged before it was sent",
    "torn-transaction": "a transaction was seen in part",
    "open-read": "a record was read at read_committed while its transaction was open",
    "hanging-transaction": "a transaction was never ended: its partition's last stable offset does not advance",
    "bank-sum": "money appeared or vanished: transactions were seen in part",
    "processed-twice": "two records were made of one",
    "never-processed": "a record was gone past, and nothing was made of it",
    "copy-order": "the results of records are in another order than the records",
    "two-owners": "a partition had two owners in one group",
    "stale-commit": "a group took a commit of a generation that was over",
    "offset-lost": "an acknowledged commit of an offset was forgotten",
    "offset-regression": "a group's committed offset went back",
    "aborted-offset": "an offset showed that only an aborted transaction had committed",
    "open-offset": "an offset showed that only an open transaction had committed",
    "unknown-offset": "an offset was returned that was never committed",
    "unclean-election": "a leader was elected from outside the in-sync replicas",
    "two-leaders": "one leader epoch had two leaders",
    "replica-divergence": "replicas hold different bytes at one offset",
    "epoch-divergence": "replicas disagree about leader epochs",
    "missing-on-replica": "a replica lacks an acknowledged record",
    "image-divergence": "nodes hold different metadata at one offset",
    "G1c": "operations follow each other in a circle",
    "G1c-realtime": "operations follow each other in a circle of real time",
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
    """Nothing illegal, but not what the scenario expects."""
    COULD_NOT_RUN = "could not run"
    SKIPPED = "skipped"


def outcome_of(verdict: Verdict | None, failures: Sequence[str] = (), could_not_run: str | None = None) -> Outcome:
    """Return what a run came to. A violation outweighs everything: what was seen broken is broken."""
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
            also = f" And it could not run to its end: {could_not_run}" if could_not_run else ""
            return f"{plural(found, 'illegal finding')}: {kinds}.{lost}{also}"
        case Outcome.COULD_NOT_RUN | Outcome.SKIPPED:
            why = could_not_run or "the history holds no completed operation"
            so_far = " Nothing illegal was found up to there." if figures.operations else ""
            return f"{why[:1].upper()}{why[1:]}.{so_far}"
        case Outcome.MISSED:
            return "Nothing illegal was found, but the scenario expects more: " + "; ".join(failures)
        case Outcome.HELD:
            if not figures.acked:
                return "Nothing illegal was found, but nothing was acknowledged either: this proves little."
            if figures.lost:
                return f"Nothing illegal. {plural(figures.lost, 'acknowledged record')} lost, every one legally."
            return f"All {number(figures.acked)} acknowledged records are there, in order, once."


def found_illegal(verdict: Verdict, anomalies: frozenset[str]) -> bool:
    """Tell whether one of these is among the violations."""
    return any(found.anomaly in anomalies for found in verdict.violations)


def all_explained(verdict: Verdict, anomalies: frozenset[str]) -> bool:
    """Tell whether there are any of these, and all of them were legal."""
    return not found_illegal(verdict, anomalies) and any(found.anomaly in anomalies for found in verdict.explained)


def tell(violation: Violation) -> str:
    """Return a violation in a sentence."""
    plain = PLAIN.get(violation.anomaly, violation.anomaly)
    where = f" ({violation.partition})" if violation.partition else ""
    return clipped(f"At {violation.t:.3f} s, {plain}{where}: {violation.reason}", SENTENCE_MAX)


def command(start: Start) -> str:
    """Return the command that runs a scenario again with its seed."""
    if start.command:
        return start.command
    if start.scenario == "simulation" and start.seed is not None:
        return f"kvorum sim --seed {start.seed}"
    seed = f" --seed {start.seed}" if start.seed is not None else ""
    return f"kvorum chaos run {shlex.quote(start.scenario or 'SCENARIO')}{seed}"


def number(value: int) -> str:
    """Return a count with separated thousands."""
    return f"{value:,}"


def plural(count: int, noun: str) -> str:
    """Return "1 fault" or "2 faults"."""
    return f"{number(count)} {noun}{'' if count == 1 else 's'}"


def seconds(value: float | None) -> str:
    """Return a duration with as many digits as it deserves; "-" for one that is not known."""
    if value is None:
        return "-"
    if value <= 0:
        return "0 s"
    if value < 0.9995:
        return f"{value * 1000:.3g} ms"
    return f"{value:.3g} s" if value < 100 else f"{value:,.0f} s"


def unbroken(text: str) -> str:
    """Return a text that stays on one line."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def clipped(text: str, length: int) -> str:
    """Return a text of limited length."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"
