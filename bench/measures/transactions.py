"""Transactions of confluent-kafka, one after the other: begin, some records to a topic of 4 partitions, commit."""

import time

from confluent_kafka import Producer

from bench.beds import Bed
from bench.processes import cpu_seconds
from bench.quantiles import quantile
from bench.rows import Case, Figures, Measure, less, more

COUNT, RECORDS, PARTITIONS = 10_000, 10, 4
WARM_UP_SHARE = 10
VALUE = b"x" * 100
TIMEOUT_SECONDS = 60.0
TITLE = f"transactions of {RECORDS} records, {PARTITIONS} partitions, one at a time"
CPU = f"{TITLE}: CPU of all processes"


def commit_all(producer: Producer, topic: str, count: int) -> list[float]:
    """Commit transactions one after the other; return how long each took, in ms. Raises KafkaException."""
    found = []
    for _ in range(count):
        began = time.perf_counter()
        producer.begin_transaction()
        for place in range(RECORDS):
            producer.produce(topic, VALUE, partition=place % PARTITIONS)
        producer.commit_transaction(TIMEOUT_SECONDS)
        found.append((time.perf_counter() - began) * 1000)
    return found


def transactions(bed: Bed) -> Figures:
    """Commit so many; the first do not count."""
    count = bed.scale.count(COUNT, 10)
    with bed.topic(PARTITIONS) as topic:
        producer = Producer(
            {"bootstrap.servers": bed.system.bootstrap, "transactional.id": topic, "linger.ms": 0, "log_level": 0}
        )
        producer.init_transactions(TIMEOUT_SECONDS)
        commit_all(producer, topic, count // WARM_UP_SHARE)
        pids = bed.system.pids()
        used, began = cpu_seconds(pids), time.perf_counter()
        times = commit_all(producer, topic, count)
        elapsed, used = time.perf_counter() - began, cpu_seconds(pids) - used
    return {
        TITLE: count / elapsed,
        f"{TITLE}: begin to committed, p50": quantile(times, 0.5),
        f"{TITLE}: begin to committed, p99": quantile(times, 0.99),
        CPU: used / count * 1000,
    }


MEASURE = Measure(
    name="transactions",
    settings={},
    cases=(
        Case(
            name=TITLE,
            rows=(
                more(TITLE, "transactions/s"),
                less(f"{TITLE}: begin to committed, p50", "ms"),
                less(f"{TITLE}: begin to committed, p99", "ms"),
                less(CPU, "ms/transaction"),
            ),
            run=transactions,
        ),
    ),
)
