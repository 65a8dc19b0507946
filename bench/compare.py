"""Kvorum and Apache Kafka 4.3.0 on this machine, alternating in one run; prints a table for docs/measurements.md.

    python -m bench.compare [--rounds 3] [--records 1000000] [--only kafka|kvorum] [--skip start|throughput|gap ...]

Needs java, and Maven the first time (bench/apache_kafka.py). Both systems run with their defaults on the loopback and
an ordinary file system; the clients are Kafka's own ProducerPerformance and confluent-kafka.
"""

import argparse
import time
from collections.abc import Callable, Mapping

from bench.measure import Asker, Throughput, create_topic, first_acknowledgement, longest_gap, throughput
from bench.processes import memory_mib
from bench.report import Report, add_options, finish, machine
from bench.stalled import StalledError
from bench.systems import MAKERS, System, formatted

IDLE_SECONDS = 5.0
THREE = {"min.insync.replicas": "2", "default.replication.factor": "3"}
STEPS = ("start", "throughput", "gap")


def measure_start(kind: str, nodes: int, report: Report) -> None:
    """Start a fresh cluster; when the first record is acknowledged, and what it takes while idle."""
    with formatted(kind, nodes, THREE if nodes == 3 else {}) as system:
        report.add(f"{label(nodes)}: start to first acknowledged record, s", kind, first_acknowledgement(system, nodes))
        system.wait_ready()
        time.sleep(IDLE_SECONDS)
        add_memory(system, kind, report, f"{label(nodes)}, idle")


def measure_throughput(kind: str, nodes: int, records: int, report: Report) -> None:
    """Run ProducerPerformance twice against a fresh cluster: cold, and warm."""
    acks = "all" if nodes == 3 else "1"
    with formatted(kind, nodes, THREE if nodes == 3 else {}) as system:
        system.start()
        system.wait_ready()
        asker = Asker(system, 1)
        for state in ("cold", "warm"):
            create_topic(asker, f"load-{state}", nodes)
            found = throughput(system, f"load-{state}", records, acks)
            add_throughput(found, f"{label(nodes)}, acks={acks}, {state}", kind, report)
        asker.close()
        add_memory(system, kind, report, f"{label(nodes)}, after load")


def add_throughput(found: Throughput, title: str, kind: str, report: Report) -> None:
    """Report one run."""
    report.add(f"{title}: records/s", kind, found.records_per_second)
    report.add(f"{title}: mean latency, ms", kind, found.average_latency_ms)
    report.add(f"{title}: 99th percentile latency, ms", kind, found.p99_latency_ms)
    report.add(f"{title}: CPU of all processes, s", kind, found.cpu_seconds)


def add_memory(system: System, kind: str, report: Report, title: str) -> None:
    """Report what all processes take."""
    resident, proportional = memory_mib(system.pids())
    report.add(f"{title}: resident memory of all processes, MiB", kind, resident)
    report.add(f"{title}: the same, shared pages once (PSS), MiB", kind, proportional)


def measure_gap(kind: str, on_controller: bool, report: Report) -> None:
    """kill -9 a leader, once one that leads the quorum and once one that does not."""
    with formatted(kind, 3, THREE) as system:
        system.start()
        system.wait_ready()
        found = longest_gap(system, on_controller)
        which = "which is the active controller too" if on_controller else "another node is the active controller"
        report.add(f"3 nodes: longest gap between acknowledgements, leader killed ({which}), s", kind, found.seconds)
        assert not found.failed, f"{found.failed} records were refused"


def label(nodes: int) -> str:
    """Say how many nodes."""
    return "1 node" if nodes == 1 else f"{nodes} nodes, RF {nodes}"


def main() -> None:
    """Measure what was asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--records", type=int, default=1_000_000, help="records of 100 bytes a run")
    parser.add_argument("--skip", choices=STEPS, action="append", default=[])
    parser.add_argument("--nodes", type=int, choices=(1, 3), help="one size of cluster")
    options = parser.parse_args()
    kinds = [options.only] if options.only else list(MAKERS)
    sizes = [options.nodes] if options.nodes else [1, 3]
    report = Report()
    print(f"before: {machine()}", flush=True)
    steps: Mapping[str, Callable[[str, int], None]] = {
        "start": lambda kind, nodes: measure_start(kind, nodes, report),
        "throughput": lambda kind, nodes: measure_throughput(kind, nodes, options.records, report),
        "gap": lambda kind, nodes: gaps(kind, nodes, report),
    }
    for round_number in range(1, options.rounds + 1):
        print(f"round {round_number}", flush=True)
        for step in (step for step in STEPS if step not in options.skip):
            for nodes in sizes:
                for kind in kinds if round_number % 2 else reversed(kinds):
                    try:
                        steps[step](kind, nodes)
                    except StalledError as error:
                        report.fail(f"round {round_number}, {step}, {nodes} nodes: {error}")
    finish(report, options.json)


def gaps(kind: str, nodes: int, report: Report) -> None:
    """Both kinds of death, of a cluster of three."""
    if nodes == 3:
        for on_controller in (False, True):
            measure_gap(kind, on_controller, report)


if __name__ == "__main__":
    main()
