"""What the checker finds in a simulated run counts, also where something was lost legally."""

from typing import Any, cast

import pytest

from kvorum.chaos.history import AnyEvent, Invoke, Ok, Process, Start
from sim.cluster import SimCluster
from sim.ledger import Violation
from sim.run import judge

P = "orders-0"


class Written:
    """The history of a run and what its ledgers know, without the run."""

    def __init__(self, final: list[list[int]], *, lost_from: int | None, begins_at: int = 0) -> None:
        """Three values are acknowledged at offsets 0 to 2; the final reads see these records."""
        self.history = self
        self.events: list[AnyEvent] = [Start(t=0.0), Process(t=0.0, process=1), Process(t=0.0, process=9)]
        self._lost_from = lost_from
        self._begins_at = begins_at
        for value in (1, 2, 3):
            self._add(1, "send", [["send", P, value]], [["send", P, value, value - 1]])
        self._add(9, "assign", [P], [P], seek_to_beginning=True)
        self._add(9, "poll", [["poll"]], [["poll", {P: final}]])

    def _add(self, process: int, f: str, begun: Any, done: Any, **fields: Any) -> None:
        op, t = len(self.events), float(len(self.events))
        final = process == 9
        self.events.append(Invoke(t=t, op=op, process=process, f=f, value=begun, final=final))
        self.events.append(Ok(t=t + 0.5, op=op, process=process, f=f, value=done, final=final, **fields))

    def first_lost_offset(self, partition: str) -> int | None:
        return self._lost_from if partition == P else None

    def begins_at(self, partition: str) -> int:
        return self._begins_at if partition == P else 0


def kind(final: list[list[int]], *, lost_from: int | None, begins_at: int = 0) -> str | None:
    """Judge and return what was raised, None if nothing."""
    try:
        judge(cast(SimCluster, Written(final, lost_from=lost_from, begins_at=begins_at)))
    except Violation as violation:
        return violation.kind
    return None


def test_records_that_were_lost_legally_may_be_missing() -> None:
    assert kind([[0, 1]], lost_from=1) is None


@pytest.mark.parametrize("lost_from", [None, 2])
def test_records_before_those_that_were_lost_legally_may_not(lost_from: int | None) -> None:
    assert kind([[0, 1]], lost_from=lost_from) == "checker: unseen"


def test_records_that_were_deleted_may_be_missing() -> None:
    missing_start = [[1, 2], [2, 3]]
    assert kind(missing_start, lost_from=None, begins_at=1) is None
    assert kind(missing_start, lost_from=None) == "checker: lost-write"


def test_a_duplicate_counts_where_something_was_lost_legally() -> None:
    assert kind([[0, 1], [1, 2], [2, 3], [3, 1]], lost_from=0) == "checker: duplicate"


def test_a_value_that_was_never_sent_is_a_violation_despite_legal_losses() -> None:
    assert kind([[0, 1], [1, 7]], lost_from=0) == "checker: inconsistent-offsets"
