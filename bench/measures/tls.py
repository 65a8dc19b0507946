"""Produce, consume and replicate with TLS for clients and between brokers, and handshakes.

Both systems have the same certificate (EC, P-256, in PEM) and negotiate TLS 1.3 with the same clients.
"""

import socket
import ssl
import time
from functools import partial

from bench.beds import Bed
from bench.measures import consume, cpu, produce
from bench.measures.consume import NO_DELAY
from bench.measures.produce import BATCHED, LARGE, THREE
from bench.processes import cpu_seconds
from bench.rows import Case, Figures, Measure, less, more

HANDSHAKES = "TLS handshakes, one client, one after the other"
HANDSHAKE_CPU = f"{HANDSHAKES}: CPU of all processes"
COUNT = 3_000


def handshakes(bed: Bed) -> Figures:
    """Connect and close, without resumption of sessions; the client's own CPU limits the rate as well."""
    count = bed.scale.count(COUNT, 20)
    context = ssl.create_default_context(cafile=bed.system.client["ssl.truststore.location"])
    host, port = bed.system.address(1)
    used, begin = cpu_seconds(bed.system.pids()), time.perf_counter()
    for _ in range(count):
        with socket.create_connection((host, port)) as raw, context.wrap_socket(raw, server_hostname=host):
            pass
    seconds, used = time.perf_counter() - begin, cpu_seconds(bed.system.pids()) - used
    return {HANDSHAKES: count / seconds, HANDSHAKE_CPU: used / count * 1e3}


def consume_case() -> Case:
    """Return the case of one consumer."""
    title = "TLS: consume, one consumer, 1 KiB, from the page cache"
    rows = (more(title, "records/s", 1.0, 1.5), less(produce.cpu_title(title), "s/GB", 1.0, 0.5))
    return Case(name=title, rows=rows, run=partial(consume.consumed, title=title, size=LARGE), java=True)


def produce_case() -> Case:
    """Return the case of one producer."""
    title = "TLS: produce, 1 node, 1 KiB, acks=all, 6 partitions, batch.size 262144, linger.ms 5"
    rows = (more(title, "records/s", 1.0, 1.4), less(produce.cpu_title(title), "s/GB", 1.0, 0.5))
    properties = {"acks": "all"} | BATCHED
    run = partial(produce.produced, title=title, size=LARGE, partitions=6, properties=properties)
    return Case(name=title, rows=rows, run=run, java=True)


ONE_NODE = Measure(
    name="tls",
    settings=NO_DELAY,
    tls=True,
    cases=(
        produce_case(),
        consume_case(),
        Case(
            name=HANDSHAKES,
            rows=(more(HANDSHAKES, "1/s", 1.0, 1.5), less(HANDSHAKE_CPU, "ms", 1.0, 0.5)),
            run=handshakes,
        ),
    ),
)
THREE_NODES = Measure(
    name="tls-replicated",
    nodes=3,
    settings=THREE | NO_DELAY,
    tls=True,
    cases=(cpu.case("1 KiB, TLS for clients and between brokers", LARGE, 1.0, 0.5),),
)
