"""Transactions of Kvorum and of Apache Kafka 4.3.0 on this machine, in turn.

    python -m bench.transactions [--rounds 3] [--only kafka|kvorum] [--transactions 10000] [--records 10]

Prints a table for docs/measurements.md. One node with its defaults; confluent-kafka's transactional producer begins,
produces so many records of 100 bytes to a topic of 4 partitions in turn, commits, and so on, one transaction after the
other. A tenth as many come before, as warm-up.
"""

import argparse
import time
from dataclasses import dataclass

from confluent_kafka import Producer

from bench.processes import cpu_seconds
from bench.quantiles import quantile
from bench.report import Report, add_options, compare
from bench.systems import formatted
from bench.topics import make_topic

TOPIC = "load"
PARTITIONS = 4
VALUE = b"x" * 100
TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactions:
    """How many, of how many records each."""

    count: int = 10_000
    records: int = 10


def commit_all(producer: Producer, count: int, records: int) -> list[float]:
    """Commit transactions one after the other; return how long each took, in seconds. Raises KafkaException."""
    found = []
    for _ in range(count):
        began = time.perf_counter()
        producer.begin_transaction()
        for place in range(records):
            producer.produce(TOPIC, VALUE, partition=place % PARTITIONS)
        producer.commit_transaction(TIMEOUT_SECONDS)
        found.append(time.perf_counter() - began)
    return found


def measure_transactions(kind: str, transactions: Transactions, report: Report) -> None:
    """Commit so many to a fresh node."""
    with formatted(kind, 1) as system:
        system.start()
        system.wait_ready()
        make_topic(system, TOPIC, PARTITIONS)
        producer = Producer(
            {"bootstrap.servers": system.bootstrap, "transactional.id": "bench", "linger.ms": 0, "log_level": 0}
        )
        producer.init_transactions(TIMEOUT_SECONDS)
        commit_all(producer, max(1, transactions.count // 10), transactions.records)
        pids = system.pids()
        used, began = cpu_seconds(pids), time.perf_counter()
        times = commit_all(producer, transactions.count, transactions.records)
        elapsed, used = time.perf_counter() - began, cpu_seconds(pids) - used
    title = f"{transactions.count:,} transactions of {transactions.records} records"
    report.add(f"{title}: transactions a second", kind, transactions.count / elapsed)
    report.add(f"{title}: median, begin to committed, ms", kind, quantile(times, 0.5) * 1000)
    report.add(f"{title}: 99th percentile, begin to committed, ms", kind, quantile(times, 0.99) * 1000)
    report.add(f"{title}: CPU of all processes, s", kind, used)


def main() -> None:
    """Measure what was asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--transactions", type=int, default=Transactions().count)
    parser.add_argument("--records", type=int, default=Transactions().records, help="of each transaction")
    options = parser.parse_args()
    transactions = Transactions(count=options.transactions, records=options.records)
    compare(options, {"transactions": lambda kind, report: measure_transactions(kind, transactions, report)})


if __name__ == "__main__":
    main()
