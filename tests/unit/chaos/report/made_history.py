"""Histories made by a plan and a seed: a cluster of three that sends, breaks, fails over and reads back."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from kvorum.chaos.history import (
    AnyEvent,
    ClusterShape,
    Fail,
    Fault,
    Finish,
    Info,
    Invoke,
    Metadata,
    NodeShape,
    Note,
    Ok,
    Process,
    Replica,
    Start,
    TopicShape,
)

FAILOVER = 0.35
"""Seconds from a leader's death to its successor."""


@dataclass(kw_only=True)
class Plan:
    """What a run looks like. Faults are (kind, node or link, begin, seconds)."""

    scenario: str = "n-minus-one"
    seed: int = 7
    seconds: float = 60.0
    rate: float = 120.0
    partitions: int = 3
    faults: list[tuple[str, tuple[str, ...], float, float]] = field(default_factory=list)
    lost: int = 0
    """Acknowledged records of orders-0 that the final reads lack, from the middle of the run."""
    unclean_at: float | None = None
    """When node 3 is elected for orders-0 from outside the ISR, after nodes 1 and 2 died; allowed by config."""
    story: str = ""
    topic: str = "orders"
    client: str = "confluent-kafka 2.5.0"


KILLS = [
    ("kill", ("node-1",), 8.0, 4.0),
    ("freeze", ("node-2", "node-3"), 18.0, 3.0),
    ("pause", ("node-2",), 28.0, 5.0),
    ("latency", ("clients", "node-3"), 31.0, 6.0),
    ("black_hole", ("node-3", "clients"), 41.0, 2.5),
    ("kill", ("node-3",), 48.0, 4.0),
]


def made(plan: Plan) -> list[AnyEvent]:
    """Return the events in the order of time."""
    events = sorted(_events(plan), key=lambda each: each.t)
    count = 0
    for place, event in enumerate(events):
        if isinstance(event, Metadata):
            count += 1
            events[place] = Metadata(t=event.t, offset=count, epoch=event.epoch, record=event.record)
    return events


def _events(plan: Plan) -> Iterator[AnyEvent]:
    random = Random(plan.seed)
    yield _start(plan)
    for number in range(4):
        yield Process(t=0.0, process=number, client=plan.client, isolation="read_uncommitted")
    yield Note(t=0.01, text="active controller: node-1")
    leaders = yield from _metadata(plan)
    yield from _faults(plan)
    logs: dict[int, list[list[int]]] = {index: [] for index in range(plan.partitions)}
    yield from _sends(plan, random, leaders, logs)
    yield from _final(plan, logs)


def _start(plan: Plan) -> Start:
    nodes = {f"node-{id}": NodeShape(id=id, roles=["broker", "controller"]) for id in (1, 2, 3)}
    configs = {"min.insync.replicas": "2"}
    if plan.unclean_at is not None:
        configs = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    topics = {plan.topic: TopicShape(partitions=plan.partitions, replication_factor=3, configs=configs)}
    return Start(
        t=0.0,
        scenario=plan.scenario,
        seed=plan.seed,
        cluster=ClusterShape(nodes=nodes, configs={"broker.session.timeout.ms": "3000"}),
        topics=topics,
    )


def _record(t: float, **fields: object) -> Metadata:
    return Metadata(t=t, offset=0, epoch=1 + (t > 8.3) + (t > 48.3), record=dict(fields))


def _metadata(plan: Plan) -> Iterator[AnyEvent]:
    """Yield leaders and ISRs as the faults make them; returns the times in which each partition has no leader."""
    yield _record(0.05, type="Topic", name=plan.topic, topic_id="T")
    dark: dict[int, list[tuple[float, float]]] = {index: [] for index in range(plan.partitions)}
    for index in range(plan.partitions):
        leader, isr, epoch = index % 3 + 1, [1, 2, 3], 0
        fields: dict[str, object] = {"type": "Partition", "topic_id": "T", "partition_id": index}
        yield _record(0.06, **fields, replicas=[1, 2, 3], isr=isr, leader=leader, leader_epoch=0)
        fields["type"] = "PartitionChange"
        for kind, targets, begin, length in plan.faults:
            if kind not in ("kill", "pause") or plan.unclean_at is not None:
                continue
            id = int(targets[0][-1])
            without = [each for each in isr if each != id]
            wait = FAILOVER if kind == "kill" else 1.8
            if leader == id:
                dark[index].append((begin, begin + wait))
                leader, epoch = without[0], epoch + 1
                yield _record(begin + wait, **fields, isr=without, leader=leader)
            else:
                yield _record(begin + wait, **fields, isr=without)
            yield _record(begin + length + 1.0, **fields, isr=isr)
        if plan.unclean_at is not None and index == 0:
            t = plan.unclean_at
            yield _record(t - 6.0, **fields, isr=[1, 2])
            yield _record(t - 3.0, **fields, isr=[1])
            yield _record(t - 2.0, **fields, leader=-1)
            dark[0].append((t - 2.0, t))
            yield _record(t, **fields, isr=[3], leader=3, leader_recovery_state=1)
            yield _record(t + 0.1, **fields, leader_recovery_state=0)
            yield _record(t + 8.0, **fields, isr=[3, 1, 2])
    yield Note(t=8.4, text="active controller: node-2")
    return dark


def _faults(plan: Plan) -> Iterator[AnyEvent]:
    for number, (kind, targets, begin, length) in enumerate(plan.faults, 1):
        story = plan.story or f"{kind} of {' and '.join(targets)}"
        names = list(targets)
        yield Fault(t=begin, fault=kind, id=number, phase="begin", targets=names, story=story)
        yield Fault(t=begin + length, fault=kind, id=number, phase="end", targets=names, story=story)


def _sends(
    plan: Plan, random: Random, dark: dict[int, list[tuple[float, float]]], logs: dict[int, list[list[int]]]
) -> Iterator[AnyEvent]:
    busy = [0.0] * plan.partitions
    for op in range(int(plan.rate * (plan.seconds - 4.0))):
        t = round(1.0 + op / plan.rate, 6)
        index = op % plan.partitions
        name = f"{plan.topic}-{index}"
        ready = max((end for begin, end in dark[index] if begin <= t < end), default=t)
        # In order within a partition, and never at the same instant.
        done = max(ready + 0.002 + random.expovariate(1 / 0.003), busy[index] + 0.000_1)
        busy[index] = done
        yield Invoke(t=t, op=op, process=index, f="send", value=[["send", name, op]])
        refused = random.random() < 0.002
        if refused:
            error = "NOT_ENOUGH_REPLICAS" if op % 2 else "REQUEST_TIMED_OUT"
            kind = Fail if op % 2 else Info
            yield kind(t=done, op=op, process=index, f="send", value=[["send", name, op]], error=error)
            continue
        offset = len(logs[index])
        logs[index].append([offset, op])
        yield Ok(t=done, op=op, process=index, f="send", value=[["send", name, op, offset]])


def _final(plan: Plan, logs: dict[int, list[list[int]]]) -> Iterator[AnyEvent]:
    t, op = plan.seconds - 1.5, 10_000_000
    names = [f"{plan.topic}-{index}" for index in range(plan.partitions)]
    yield Process(t=t, process=90, client=plan.client, isolation="read_uncommitted")
    yield Invoke(t=t, op=op, process=90, f="assign", value=[*names], final=True)
    yield Ok(t=t + 0.01, op=op, process=90, f="assign", value=[*names], final=True, seek_to_beginning=True)
    for index, log in logs.items():
        gone = set()
        if index == 0 and plan.lost:
            middle = len(log) // 2
            gone = set(range(middle, middle + plan.lost))
        if index == 0 and plan.unclean_at is not None:
            # What was written after node 3 had left the ISR is gone with its deposed leader, to the last record.
            place = int((plan.unclean_at - 4.0 - 1.0) * plan.rate / plan.partitions)
            died = (plan.unclean_at - 2.0 - 1.0) * plan.rate
            gone = {offset for offset, op in log[place:] if op < died}
        kept = [record for record in log if record[0] not in gone]
        for place in range(0, len(kept), 500):
            op += 1
            t = round(t + 0.000_1, 6)
            yield Invoke(t=t, op=op, process=90, f="poll", value=[["poll"]], final=True)
            value = [["poll", {f"{plan.topic}-{index}": kept[place : place + 500]}]]
            yield Ok(t=t + 0.000_05, op=op, process=90, f="poll", value=value, final=True)
        digests = [(place, place, f"{place:08x}") for place in range(0, len(log), 50)]
        for node in (1, 2, 3) if not plan.lost and plan.unclean_at is None else ():
            end = len(log)
            batches = [(a, min(a + 49, end - 1), digest) for a, _, digest in digests]
            yield Replica(
                t=plan.seconds - 0.2,
                node=node,
                partition=f"{plan.topic}-{index}",
                start=0,
                high_watermark=end,
                end=end,
                epochs=[[0, 0]],
                batches=batches,
            )
    yield Finish(t=plan.seconds)
