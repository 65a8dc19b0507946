"""Clients that use groups and transactions in a run, and checks after healing.

At the end no transaction may hang: one transaction timeout after the last possible begin, every last stable offset
is at the high watermark. Then the groups' offsets are fetched, and SOURCE and SINK read at read_committed.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from kvorum.chaos.history import Ok, OperationValue, Stable
from kvorum.protocol.errors import ErrorCode
from sim.client import NoAnswer, SimClient
from sim.committed_reads import fetch_committed
from sim.coordination import SINK, SOURCE, WATCHERS, WORKERS
from sim.feeder import Feeder
from sim.group_worker import GroupWorker, fetch_committed_offset
from sim.plan import Coordination
from sim.workload import Recorder

Until = Callable[[], bool]
Work = Callable[[SimClient, Until], Coroutine[Any, Any, None]]

STABLE_SLACK_S: Final = 10.0
"""Added to the transaction's timeout, for the periodic abort of such transactions and for the markers."""


class LeaderView(NamedTuple):
    """A partition as its leader has it."""

    last_stable_offset: int
    high_watermark: int


def group_clients(drawn: Coordination, recorder: Recorder) -> Iterator[tuple[str, Work]]:
    """Yield each client's name and its work until stopped."""

    def feed(client: SimClient, until: Until, number: int) -> Coroutine[Any, Any, None]:
        return Feeder(number, client, recorder, drawn).run(until)

    def work(client: SimClient, until: Until, group: str, number: int) -> Coroutine[Any, Any, None]:
        return GroupWorker(group, number, client, recorder, drawn, makes=group == WORKERS).run(until)

    for number in range(1, drawn.feeders + 1):
        yield f"feeder-{number}", partial(feed, number=number)
    for group, count in ((WORKERS, drawn.workers), (WATCHERS, drawn.watchers)):
        for number in range(1, count + 1):
            yield f"{group}-{number}", partial(work, group=group, number=number)


async def last_looks(
    client: SimClient, recorder: Recorder, drawn: Coordination, ends: dict[tuple[str, int], int]
) -> None:
    """Fetch the groups' offsets and read everything from its beginning; `ends` are the last stable offsets."""
    process = recorder.process("final groups", 0, idempotent=False, isolation="read_committed")
    for group, count in ((WORKERS, drawn.workers), (WATCHERS, drawn.watchers)):
        for partition in range(drawn.partitions if count else 0):
            found = None
            while found is None:
                found = await fetch_committed_offset(client, recorder, group, process, partition)
    for topic in (SOURCE, SINK):
        names: OperationValue = [f"{topic}-{partition}" for partition in range(drawn.partitions)]
        process = recorder.process(f"final {topic}", 0, idempotent=False, isolation="read_committed")
        op = recorder.invoke(process, "assign", names, seek_to_beginning=True)
        recorder.complete(Ok, op, process, names, seek_to_beginning=True)
        for partition in range(drawn.partitions):
            await _read(client, recorder, process, topic, partition, ends[topic, partition])


async def _read(client: SimClient, recorder: Recorder, process: int, topic: str, partition: int, end: int) -> None:
    position = 0
    while position < end:
        try:
            found = await fetch_committed(client, topic, partition, position)
        except NoAnswer:
            await asyncio.sleep(0.1)
            continue
        if found.code is not ErrorCode.NONE:
            await asyncio.sleep(0.1)
            continue
        position = found.position
        if found.records:
            op = recorder.invoke(process, "poll", [["poll"]])
            recorder.complete(Ok, op, process, [["poll", {f"{topic}-{partition}": found.records}]])


def stable_events(t: float, leaders: dict[str, LeaderView]) -> list[Stable]:
    """Return the leaders' states of their partitions, as events."""
    return [
        Stable(t=t, partition=name, last_stable_offset=each.last_stable_offset, high_watermark=each.high_watermark)
        for name, each in sorted(leaders.items())
    ]
