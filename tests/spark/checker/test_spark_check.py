"""The checker as a Spark job says what the checker says: over histories that behave, and over all ways to spoil them.

Most of it runs the job's steps over lists (an RDD's methods, without Spark), so that many histories can be tried; the
last tests run Spark itself.
"""

import random
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvorum.chaos import spark_check
from kvorum.chaos.checker import Verdict, check
from kvorum.chaos.history import BrokenHistory, Fail, HistoryWriter, Info, Invoke, Ok
from kvorum.chaos.spark_parts import COVERED
from tests.spark.conftest import spark  # noqa: F401  # the session's fixture
from tests.unit.chaos.checker.history_kit import History, P
from tests.unit.chaos.checker.model_kit import acked, rewrite, seeded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Listed:
    """A list with the methods of an RDD that the job uses."""

    def __init__(self, items: Iterable[Any]) -> None:
        self.items = list(items)

    def persist(self, level: Any) -> "Listed":
        return self

    def unpersist(self) -> None:
        pass

    def zipWithIndex(self) -> "Listed":
        return Listed((item, at) for at, item in enumerate(self.items))

    def mapPartitions(self, function: Callable[..., Any]) -> "Listed":
        half = len(self.items) // 2  # never between two lines of one key: for the steps that sort it is all one part
        if self.items and isinstance(self.items[0][0], tuple):
            return Listed(function(iter(self.items)))
        return Listed(chain(function(iter(self.items[:half])), function(iter(self.items[half:]))))

    def map(self, function: Callable[..., Any]) -> "Listed":
        return Listed(function(item) for item in self.items)

    def flatMap(self, function: Callable[..., Any]) -> "Listed":
        return Listed(each for item in self.items for each in function(item))

    def filter(self, function: Callable[..., Any]) -> "Listed":
        return Listed(item for item in self.items if function(item))

    def groupByKey(self, tasks: int | None = None) -> "Listed":
        groups: dict[Any, list[Any]] = {}
        for key, value in self.items:
            groups.setdefault(key, []).append(value)
        return Listed(groups.items())

    def reduceByKey(self, function: Callable[..., Any]) -> "Listed":
        groups: dict[Any, Any] = {}
        for key, value in self.items:
            groups[key] = function(groups[key], value) if key in groups else value
        return Listed(groups.items())

    def cogroup(self, other: "Listed", tasks: int) -> "Listed":
        groups: dict[Any, tuple[list[Any], list[Any]]] = {}
        for at, side in enumerate((self, other)):
            for key, value in side.items:
                groups.setdefault(key, ([], []))[at].append(value)
        return Listed(groups.items())

    def union(self, other: "Listed") -> "Listed":
        return Listed(self.items + other.items)

    def repartitionAndSortWithinPartitions(self, tasks: int, partition: Callable[..., int]) -> "Listed":
        return Listed(sorted(self.items, key=lambda item: (partition(item[0]) % tasks, item[0])))

    def collect(self) -> list[Any]:
        return self.items

    def collectAsMap(self) -> dict[Any, Any]:
        return dict(self.items)

    def count(self) -> int:
        return len(self.items)

    def isEmpty(self) -> bool:
        return not self.items

    def max(self, key: Callable[..., Any]) -> Any:
        return max(self.items, key=key)


class Context:
    """A context without Spark: every element goes through bytes where Spark would pickle it."""

    defaultParallelism = 3

    def __init__(self, events: Iterable[Any]) -> None:
        self.lines = [msgspec.json.encode(event) for event in events]

    def textFile(self, path: str, tasks: int, use_unicode: bool) -> Listed:
        return Listed(self.lines)

    def broadcast(self, value: Any) -> Any:
        return type("Broadcast", (), {"value": value})


def listed(history: History, strict: bool = False) -> Verdict:
    context: Any = Context(history.events)
    return spark_check.judged(context, "", None, strict=strict, values_max=1000, tasks=None)


def told(verdict: Verdict) -> list[Any]:
    """What must be the same: everything but the stories of torn transactions."""
    return [
        sorted(
            (each.anomaly, str(each.partition), each.count, each.values, each.reason, each.t)
            for each in found
            if each.anomaly in COVERED
        )
        for found in (verdict.violations, verdict.explained)
    ]


def assert_same(history: History, other: Verdict, strict: bool = False) -> Verdict:
    verdict = check(history.events, strict=strict)
    assert told(other) == told(verdict)
    for name in ("sends", "acked", "lost", "lost_legally", "duplicated", "reordered", "records_read", "final_reads"):
        assert getattr(other.figures, name) == getattr(verdict.figures, name), name
    assert {n: (f.sends, f.acked, f.read, f.lost) for n, f in other.figures.partitions.items()} == {
        n: (f.sends, f.acked, f.read, f.lost) for n, f in verdict.figures.partitions.items()
    }
    return verdict


def drop(history: History, chance: random.Random) -> None:
    """A value that nobody gets any more, or only some do not."""
    name, _, value, _ = chance.choice(acked(history))
    often = chance.choice((1.0, 0.5))
    gone = {value, value + 1} if chance.random() < 0.3 else {value}
    rewrite(
        history,
        lambda _, at, records: [r for r in records if at != name or r[1] not in gone or chance.random() > often],
    )


def repeat(history: History, chance: random.Random) -> None:
    name, _, value, _ = chance.choice(acked(history))
    rewrite(history, lambda _, at, rs: [*rs, [rs[-1][0] + 100, value]] if at == name and rs else rs)


def exchange(history: History, chance: random.Random) -> None:
    found = acked(history)
    name = chance.choice(found)[0]
    one, two = (chance.choice([each for each in found if each[0] == name])[2] for _ in range(2))
    swap = {one: two, two: one}
    often = chance.choice((1.0, 0.6))
    rewrite(
        history,
        lambda _, at, rs: [[o, swap.get(v, v)] if at == name and chance.random() <= often else [o, v] for o, v in rs],
    )


def invent(history: History, chance: random.Random) -> None:
    name, offset, _, _ = chance.choice(acked(history))
    rewrite(history, lambda _, at, rs: [[o, 9999] if (at, o) == (name, offset) else [o, v] for o, v in rs])


def other_outcome(history: History, chance: random.Random) -> None:
    """A completion that says something else, or nothing, or is not there."""
    at = chance.choice(
        [n for n, event in enumerate(history.events) if isinstance(event, Ok) and event.f in ("send", "txn")]
    )
    event = history.events[at]
    fields = {field: getattr(event, field) for field in event.__struct_fields__}
    match chance.randrange(5):
        case 0:
            history.events[at] = Fail(**{**fields, "error": "NO"})
        case 1:
            history.events[at] = Info(**{**fields, "error": "TIMEOUT", "committed": None})
        case 2:
            history.events[at] = Info(**{**fields, "error": "TIMEOUT", "committed": None, "value": []})
        case 3:
            del history.events[at]
        case _:
            history.events[at] = Ok(**{**fields, "ended": event.t + chance.choice((-1.0, 5.0))})


def again(history: History, chance: random.Random) -> None:
    """Records that one poll returns twice."""
    rewrite(history, lambda _, at, rs: [*rs, rs[0]] if len(rs) > 1 and chance.random() < 0.2 else rs)


def misplace(history: History, chance: random.Random) -> None:
    """Two sends of a process that were told each other's offset, and lie there; or the same one."""
    found = acked(history)
    name, first, one, process = chance.choice(found)
    _, last, two, _ = chance.choice([each for each in found if (each[0], each[3]) == (name, process)])
    told = {one: last, two: first if chance.random() < 0.7 else last}
    swap = {one: two, two: one}
    rewrite(history, lambda _, at, rs: [[o, swap.get(v, v)] if at == name else [o, v] for o, v in rs])
    for event in history.events:
        if isinstance(event, Ok) and event.f == "send":
            for step in event.value:
                if isinstance(step, list) and step[1] == name:
                    step[3] = told.get(step[2], step[3])  # type: ignore[call-overload]


def no_final(history: History, chance: random.Random) -> None:
    """The final reads of one partition are not there, or do not begin at the beginning."""
    finals = [n for n, event in enumerate(history.events) if getattr(event, "final", False)]
    for n in reversed(finals[: len(finals) // 2]):
        del history.events[n]


def lose(history: History, chance: random.Random) -> None:
    """Nodes that lose their data, unclean elections, small ISRs: in the middle of everything."""
    extra = History()
    extra._metadata_offset = 50
    for _ in range(chance.randrange(1, 4)):
        match chance.randrange(4):
            case 0:
                extra.fault(
                    "wipe", *(f"node-{n}" for n in chance.sample((1, 2, 3), chance.randrange(1, 4))), lossy=True
                )
            case 1:
                extra.change(leader=chance.randrange(1, 4), leader_epoch=3, leader_recovery_state=1, isr=[1])
            case 2:
                extra.change(isr=[chance.randrange(1, 4)])
            case _:
                extra.fault("kill", "node-1")
    at = chance.randrange(3, len(history.events))
    t = history.events[at].t
    history.events[at:at] = [msgspec.structs.replace(event, t=t) for event in extra.events[1:]]


def ends(history: History, chance: random.Random) -> None:
    """What disks and leaders say at the end."""
    for name in ("orders-0", "orders-1"):
        for node in (1, 2, 3):
            end = chance.randrange(1, 30)
            batches = [(offset, offset, f"{offset + (chance.random() < 0.03):08x}") for offset in range(end)]
            history.replica(node, end=end, start=chance.choice((0, 0, 3)), batches=batches, at=name)
        history.stable(chance.randrange(5, 7), 6, at=name)
    for node in ("node-1", "node-2"):
        history.image(node, 7, chance.choice("ab"))


SPOIL = (drop, repeat, exchange, invent, other_outcome, other_outcome, no_final, again, misplace, lose, ends)


def spoiled(seed: int) -> History:
    chance = random.Random(seed)
    history = seeded(seed, chance.choice((60, 150, 250)))
    for _ in range(chance.randrange(5)):
        if acked(history):
            chance.choice(SPOIL)(history, chance)
    return history


@given(st.integers(0, 1_000_000), st.booleans())
@settings(max_examples=100, deadline=None)
def test_any_history_gets_the_checkers_verdict(seed: int, strict: bool) -> None:
    history = spoiled(seed)
    assert_same(history, listed(history, strict), strict)


def test_the_spoiled_histories_break_nearly_every_rule() -> None:
    """So that the property above says something."""
    found = {each.anomaly for seed in range(120) for each in spoiled(seed).check().violations}
    rare = {"acked-below-min-isr", "missing-offset", "two-leaders", "precommitted-read", "int-nonmonotonic-send"}
    assert rare | found >= COVERED - {"epoch-divergence"}, sorted(COVERED - found)


def test_a_value_of_a_transaction_that_another_partition_shows_is_missed() -> None:
    """Its outcome is unknown to the client; that one half was polled says that the other half must be there."""
    history = History().created().created(partition=1)
    steps: Any = [["send", P, 1, 0], ["send", "orders-1", 2, 0]]
    history.txn(steps, kind=Info, committed=None)
    history.final((0, 1)).final((5, 9), at="orders-1", process=91)
    verdict = assert_same(history, listed(history))
    assert {"torn-transaction", "lost-write"} <= {each.anomaly for each in verdict.violations}


def test_a_transaction_that_polls_what_it_sent_and_ends_late() -> None:
    history = History().created().created(partition=1)
    steps: Any = [["send", P, 1, 0], ["send", "orders-1", 2, 0], ["poll", {P: [[0, 1]], "orders-1": [[0, 2]]}]]
    history.txn(steps, open_for=1.0)
    history.final((0, 1)).final((0, 2), at="orders-1", process=91)
    verdict = assert_same(history, listed(history))
    assert "precommitted-read" in {each.anomaly for each in verdict.violations}


def test_half_a_line_at_the_end_is_left_out_and_nonsense_elsewhere_refused() -> None:
    history = seeded(3)
    context: Any = Context(history.events)
    context.lines.append(b'{"kind":"ok","t":')
    verdict = spark_check.judged(context, "", None, strict=False, values_max=1000, tasks=2)
    assert told(verdict) == told(history.check())
    context.lines[5] = b"nonsense"
    with pytest.raises(BrokenHistory, match="line 6"):
        spark_check.judged(context, "", None, strict=False, values_max=1000, tasks=2)


def test_what_is_not_covered_is_said() -> None:
    history = History().created()
    history.owns(1, P).owns(2, P)
    verdict = listed(history)
    assert verdict.valid and not history.check().valid
    assert any("groups" in sentence for sentence in verdict.figures.not_judged)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 5, 12])
def test_spark_says_the_same(spark: "SparkSession", tmp_path: Path, seed: int) -> None:  # noqa: F811
    history = spoiled(seed)
    path = tmp_path / "history.jsonl"
    with HistoryWriter(path) as writer:
        for event in history.events:
            writer.write(event)
    assert_same(history, spark_check.check(spark, str(path), tasks=3))


def test_invocations_are_needed_only_where_there_is_one() -> None:
    """Completions without an invocation, as a history that was cut at the front has them."""
    history = seeded(9)
    doomed = [n for n, event in enumerate(history.events) if isinstance(event, Invoke)][:10]
    for n in reversed(doomed):
        del history.events[n]
    assert_same(history, listed(history))
