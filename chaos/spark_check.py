"""The checker as a Spark job, for histories larger than memory: the verdict is that of kvorum.chaos.checker.

    kvorum chaos check-spark history.jsonl [--master spark://...] [--strict] [-o json]

Most rules need one partition of the cluster at a time. So the history is divided: general events (start, processes,
faults, metadata, assignments) go to all parts; an operation's lines go to every partition in them, without other
partitions' data; and the checker processes each partition's part, in the order of the lines. A task needs memory
for the operations of one partition, not of all. Three items concern several partitions, and are added:

    the end of the final reads        one line for every part
    a transaction of unknown outcome  it is committed if one of its values was polled anywhere: other parts get
                                      a witness, the value and one poll that returned it
    a torn transaction                each part returns its visible values of each transaction; they are combined by op

Covered are the rules of spark_parts.COVERED, with their legal excuses: lost and unseen writes, duplicates, offsets that
contradict each other, order (of sends, of polls, in real time), aborted, open, torn and hanging transactions, unclean
elections, replicas and images. Not covered, which the verdict reports: cycles (G0, G1c) and the rules about groups
(ownership, commits, copies).
"""

import sys
import zlib
from collections.abc import Iterable
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from kvorum.chaos.checker import Checker, Figures, PartitionFigures, Verdict, Violation
from kvorum.chaos.checker.judge import Group
from kvorum.chaos.checker.verdict import VALUES_SHOWN_MAX
from kvorum.chaos.history import BrokenHistory, HistoryReader, Ok, Operation, Process
from kvorum.chaos.spark_parts import (
    LOCAL,
    OWN,
    Line,
    Shared,
    Witness,
    classify,
    judge_parts,
    sightings,
    spread,
    torn,
    unknown_sends,
)

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.sql import SparkSession

NOT_COVERED: Final = (
    "Cycles of operations (G0, G1c) were not checked; `kvorum chaos check` checks them.",
    "The rules for groups (ownership, commits, copies, sums) were not checked; `kvorum chaos check` checks them.",
)


def check(
    spark: "SparkSession",
    path: str,
    *,
    strict: bool = False,
    values_max: int = VALUES_SHOWN_MAX,
    tasks: int | None = None,
) -> Verdict:
    """Return the verdict on a history file on any file system that Spark reaches.

    Raises: BrokenHistory, with the number of the line.
    """
    from pyspark import StorageLevel

    return judged(spark.sparkContext, path, StorageLevel.DISK_ONLY, strict=strict, values_max=values_max, tasks=tasks)


def judged(
    context: "SparkContext", path: str, level: Any, *, strict: bool, values_max: int, tasks: int | None
) -> Verdict:
    """Return the verdict; what several steps need is kept at this storage level."""
    tasks = tasks or context.defaultParallelism
    numbered = context.textFile(path, tasks, use_unicode=False).zipWithIndex()
    lines = numbered.mapPartitions(classify).persist(level)  # type: ignore[arg-type]
    try:
        ops = _of(lines, "op").groupByKey(tasks).persist(level)
        shared = _shared(lines, ops, strict=strict, values_max=values_max)
        witnesses = context.broadcast(shared.witnesses)
        shared_values = context.broadcast(shared)
        parts: RDD[Any] = ops.flatMap(lambda op: spread(op[0], op[1], witnesses.value.get(op[0])))
        replicas: RDD[Any] = _of(lines, "replica").map(lambda each: ((each[0], each[1][0], OWN), each[1][1]))
        results = (
            parts.union(replicas)
            .repartitionAndSortWithinPartitions(tasks, lambda key: zlib.crc32(key[0].encode()))
            .mapPartitions(lambda each: judge_parts(each, shared_values.value))
            .persist(level)
        )
        return _verdict(shared, results, ops, tasks)
    finally:
        lines.unpersist()


def _of(lines: "RDD[Any]", kind: str) -> "RDD[Any]":
    return lines.filter(lambda each: each[0] == kind).map(itemgetter(1))


def _shared(lines: "RDD[Any]", ops: "RDD[Any]", *, strict: bool, values_max: int) -> Shared:
    """Collect general events, and the witnesses."""
    broken = sorted(_of(lines, "broken").collect())
    about_all: list[Line] = _of(lines, "all").collect()
    lasts = _of(lines, "last").collect()
    end = max((number for _, number in lasts), default=-1)
    # A run that is killed during a write leaves half a line at the end, nowhere else.
    if broken and (broken[0][0] < end or end == 0):
        raise BrokenHistory(f"line {broken[0][0] + 1}: {broken[0][1]}")
    finals = _of(lines, "final")
    if not finals.isEmpty():
        number, text = finals.max(key=itemgetter(0))
        event = HistoryReader().decode(text)
        assert isinstance(event, Ok), "it was one when the line was sorted"
        nothing: Any = [["poll", {}]]
        alone = msgspec.structs.replace(event, f="poll", value=nothing, rebalance=[])
        about_all.append((number, msgspec.json.encode(alone)))
    about_all.sort()
    wanted = dict(ops.flatMap(lambda op: unknown_sends(op[0], op[1])).collect())
    witnesses: dict[int, Witness] = {}
    if wanted:
        uncommitted = _uncommitted(about_all)
        seen = ops.flatMap(lambda op: sightings(op[1], wanted, uncommitted))
        witnesses = seen.reduceByKey(lambda one, two: min(one, two, key=lambda each: each.poll[0])).collectAsMap()
    return Shared(about_all, max((t for t, _ in lasts), default=0.0), witnesses, strict, values_max)


def _uncommitted(lines: Iterable[Line]) -> frozenset[int]:
    """Return the processes that read at read_uncommitted."""
    reader = HistoryReader()
    events = (reader.decode(text) for _, text in lines)
    return frozenset(e.process for e in events if isinstance(e, Process) and e.isolation != "read_committed")


def _verdict(shared: Shared, results: "RDD[Any]", ops: "RDD[Any]", tasks: int) -> Verdict:
    """Combine the results of the parts."""
    found: list[tuple[bool, Violation]] = [
        (legal, msgspec.json.decode(text, type=Violation)) for legal, text in _of(results, "found").collect()
    ]
    figures = Figures(not_judged=list(NOT_COVERED), duration=shared.ended)
    for name, text, (legally, duplicated, reordered, compared) in _of(results, "figures").collect():
        own = figures.partitions[name] = msgspec.json.decode(text, type=PartitionFigures)
        figures.sends += own.sends
        figures.acked += own.acked
        figures.lost += own.lost
        figures.records_read += own.read
        figures.lost_legally += legally
        figures.duplicated += duplicated
        figures.reordered += reordered
        figures.replicas_compared += compared
    groups: dict[tuple[str, str | None], Group] = {}
    joined = _of(results, "shown").cogroup(ops, tasks)
    pieces = joined.flatMap(lambda each: torn(each[0], each[1][0], each[1][1])).collect()
    for _, name, value, reason, excuse, t in sorted(pieces, key=itemgetter(0, 1, 2)):
        group = groups.get((name, excuse))
        if group is not None:
            group.add(value)
            continue
        why = reason if excuse is None else f"{reason}; legal, since {excuse}"
        one = Violation(anomaly="torn-transaction", partition=name, values=[value], count=1, story=[], reason=why, t=t)
        groups[name, excuse] = Group(one, shared.values_max)
    found += [(excuse is not None, group.violation()) for (_, excuse), group in groups.items()]
    found += _of_everything(shared, set(figures.partitions), figures)
    found.sort(key=lambda each: each[1].t)
    return Verdict(
        violations=[violation for legal, violation in found if not legal],
        explained=[violation for legal, violation in found if legal],
        figures=figures,
    )


def _of_everything(shared: Shared, judged: set[str], figures: Figures) -> list[tuple[bool, Violation]]:
    """Check findings without a partition: images, elections of unused partitions, hanging operations."""
    checker, reader = Checker(), HistoryReader()
    for _, text in shared.lines:
        event = reader.decode(text)
        if event is not None and not (isinstance(event, Operation) and event.f in LOCAL):
            checker.feed(event)
    verdict = checker.verdict(strict=shared.strict, values_max=shared.values_max)
    figures.images_compared = verdict.figures.images_compared
    figures.final_reads = any(b'"final":true' in text for _, text in shared.lines)
    return [
        (legal, violation)
        for legal, each in ((False, verdict.violations), (True, verdict.explained))
        for violation in each
        if violation.partition not in judged or violation.anomaly == "hanging-transaction"
    ]


@click.command()
@click.argument("history")
@click.option("--master", default="local[*]", show_default=True, help="Spark's master.")
@click.option("--memory", default="1g", show_default=True, help="Heap of the driver.")
@click.option("--tasks", type=int, help="Number of tasks (default: number of cores).")
@click.option("--strict", is_flag=True, help="As `kvorum chaos check --strict`.")
@click.option("-o", "--output", type=click.Choice(("text", "json")), default="text", show_default=True)
def main(history: str, master: str, memory: str, tasks: int | None, strict: bool, output: str) -> None:
    """Check a history that is larger than memory. Exit code 0: no violations; 1: violations; 2: no history.

    \b
    kvorum chaos check-spark history.jsonl
    kvorum chaos check-spark history.jsonl --master spark://spark:7077 --tasks 200 -o json
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("kvorum-chaos-check").master(master)
    spark = builder.config("spark.driver.memory", memory).config("spark.ui.enabled", "false").getOrCreate()
    try:
        verdict = check(spark, history, strict=strict, tasks=tasks)
    except BrokenHistory as error:
        click.echo(f"{history}: {error}", err=True)
        sys.exit(2)
    finally:
        spark.stop()
    if output == "json":
        click.echo(msgspec.json.encode({"valid": verdict.valid, **msgspec.to_builtins(verdict, str_keys=True)}))
    else:
        for title, violations in (("VIOLATION", verdict.violations), ("explained", verdict.explained)):
            for each in violations:
                click.echo(f"{title} {each.anomaly} in {each.partition} x {each.count}\n  {each.reason}")
        click.echo("\n".join(f"Not judged: {sentence}" for sentence in verdict.figures.not_judged))
        click.echo(f"Verdict: {len(verdict.violations)} kinds of violations")
    sys.exit(0 if verdict.valid else 1)
