"""Throughput of the clients with a broker that only responds: no broker is faster with them.

It does not use the measured systems: the difference of their figures shows the machine's variation.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import uvloop

from bench import tools
from bench.beds import Bed
from bench.child import Child
from bench.clients.answerer import TOPIC
from bench.measures import requests
from bench.measures.produce import BATCHED, LARGE, SMALL, WARM_UP_SHARE, partitions_of, records_of
from bench.rows import Case, Figures, Measure, more

READY_SECONDS = 30.0


@contextmanager
def answering(partitions: int) -> Iterator[int]:
    """Start a broker that only responds; yield its port. Raises StalledError."""
    answerer = Child("bench.clients.answerer", str(partitions))
    try:
        yield int(answerer.expect(READY_SECONDS)[0])
    finally:
        answerer.close()


def produced(bed: Bed, title: str, size: int, partitions: int, properties: dict[str, str]) -> Figures:
    """Produce as the measure `produce` does."""
    records = records_of(bed, size)
    with answering(partitions) as port:
        warm_up = records // WARM_UP_SHARE
        found = tools.produce(f"127.0.0.1:{port}", TOPIC, records, size, properties, warm_up=warm_up)
    return {title: found.records_per_second}


def requested(bed: Bed, title: str, connections: int) -> Figures:
    """Send the same requests as the measure `requests`."""
    with answering(requests.PARTITIONS) as port, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        rate, _ = runner.run(requests.request_rate(bed, TOPIC, connections, address=("127.0.0.1", port)))
    return {title: rate}


def produce_case(what: str, size: int, partitions: int, properties: dict[str, str]) -> Case:
    """Return a case of `produce`."""
    title = f"the client's own limit, produce, {what}"
    run = partial(produced, title=title, size=size, partitions=partitions, properties=properties)
    return Case(name=title, rows=(more(title, "records/s"),), run=run, java=True)


def request_case(connections: int) -> Case:
    """Return the case of so many connections."""
    title = f"the client's own limit, requests of one record, {connections} connection{'s' * (connections > 1)}"
    run = partial(requested, title=title, connections=connections)
    return Case(name=title, rows=(more(title, "requests/s"),), run=run)


MEASURE = Measure(
    name="own-limit",
    settings={},
    cases=(
        *(
            produce_case(f"100 B, acks={acks}, {partitions_of(count)}", SMALL, count, {"acks": acks})
            for acks in ("1", "all")
            for count in (1, 6)
        ),
        produce_case(
            "1 KiB, acks=all, 6 partitions, batch.size 262144, linger.ms 5", LARGE, 6, {"acks": "all"} | BATCHED
        ),
        request_case(1),
        request_case(32),
    ),
)
