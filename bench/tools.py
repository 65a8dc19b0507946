"""Kafka's own command line tools as clients: ProducerPerformance, ConsumerPerformance, EndToEndLatency.

They are those of Apache Kafka 4.3.0, unmodified, against either system; their output is parsed. Each has its own
warm-up, which does not count if the tool supports that.
"""

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.apache_kafka import KafkaUnavailableError, folder_of_jars, has_jars, jars, java
from bench.stalled import StalledError
from kvorum.runtime.process import die_with_parent

TOOL_SECONDS = 600.0
PACKAGE = "org.apache.kafka.tools"
TOTAL = re.compile(
    r"(\d+) (steady state )?records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\), ([\d.]+) ms avg latency, "
    r"([\d.]+) ms max latency, (\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th"
)
AVERAGE = re.compile(r"Avg latency: ([\d.]+) ms")
PERCENTILES = re.compile(r"Percentiles: 50th = (\d+), 99th = (\d+), 99.9th = (\d+)")
CONSUMED_FIELDS = 10
NO_PROPERTIES: Mapping[str, str] = {}


def missing(fetch: bool = True) -> str | None:
    """Return why the tools cannot be run here, None if they can. Maven downloads them once, unless disabled."""
    try:
        java()
        if not fetch and not has_jars(folder_of_jars()):
            return f"Apache Kafka's jars are not in {folder_of_jars()} (bench/apache_kafka.py)"
        jars()
    except KafkaUnavailableError as error:
        return str(error)
    return None


def command(tool: str, arguments: Sequence[str]) -> list[str]:
    """Return the command line of a tool."""
    return [java(), "-Xmx512M", "-cp", jars(), f"{PACKAGE}.{tool}", *arguments]


def run(tool: str, arguments: Sequence[str]) -> str:
    """Run a tool to its end; return its output. Raises StalledError."""
    parent = os.getpid()
    process = subprocess.Popen(
        command(tool, arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: die_with_parent(parent),
    )
    try:
        output, errors = process.communicate(timeout=TOOL_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise StalledError(f"{tool} has no end after {TOOL_SECONDS:.0f} s") from error
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    if process.returncode:
        raise StalledError(f"{tool} ends with {process.returncode}: {output[-1000:]}{errors[-1000:]}")
    return output


@dataclass(frozen=True, slots=True)
class Produced:
    """ProducerPerformance's figures of its steady state."""

    records_per_second: float
    average_ms: float
    p99_ms: float


def producer_arguments(
    bootstrap: str, topic: str, records: int, size: int, properties: Mapping[str, str], rate: float = -1
) -> list[str]:
    """Return ProducerPerformance's arguments."""
    found = ["--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records)]
    found += ["--record-size", str(size), "--throughput", f"{rate:.0f}"]
    given = [f"{key}={value}" for key, value in properties.items()]
    return [*found, "--command-property", *given] if given else found


def produce(
    bootstrap: str,
    topic: str,
    records: int,
    size: int,
    properties: Mapping[str, str] = NO_PROPERTIES,
    warm_up: int = 0,
    rate: float = -1,
) -> Produced:
    """Produce so many records, of which the first `warm_up` are not counted. Raises StalledError."""
    arguments = producer_arguments(bootstrap, topic, records, size, properties, rate)
    if warm_up:
        arguments += ["--warmup-records", str(warm_up)]
    return produced_of(run("ProducerPerformance", arguments), records, warm_up)


def produced_of(output: str, records: int, warm_up: int) -> Produced:
    """Read what ProducerPerformance printed. Raises StalledError."""
    found = [match for match in TOTAL.findall(output) if bool(match[1]) == bool(warm_up)]
    if not found or int(found[-1][0]) != records - warm_up:
        raise StalledError(f"not all {records} records were sent: {output[-1000:]}")
    _, _, per_second, _, average, _, _, _, last = found[-1]
    return Produced(float(per_second), float(average), float(last))


@contextlib.contextmanager
def producing(
    bootstrap: str, topic: str, rate: float, size: int, properties: Mapping[str, str] = NO_PROPERTIES
) -> Iterator[None]:
    """ProducerPerformance at a rate, as long as this is open. Raises StalledError if it did not last."""
    parent = os.getpid()
    process = subprocess.Popen(
        command("ProducerPerformance", producer_arguments(bootstrap, topic, 2**31 - 1, size, properties, rate)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: die_with_parent(parent),
    )
    try:
        yield
        if process.poll() is not None:
            raise StalledError("the producer beside it has ended")
    finally:
        process.kill()
        process.wait()


@dataclass(frozen=True, slots=True)
class Consumed:
    """ConsumerPerformance's figures, without the wait for its group."""

    records_per_second: float
    mib_per_second: float


def consume(
    bootstrap: str, topic: str, records: int, group: str, properties: Mapping[str, str] = NO_PROPERTIES
) -> Consumed:
    """Consume so many records from the beginning. Raises StalledError."""
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records)]
    arguments += ["--group", group, "--timeout", "60000", "--hide-header"]
    for key, value in properties.items():
        arguments += ["--command-property", f"{key}={value}"]
    return consumed_of(run("ConsumerPerformance", arguments), records)


def consumed_of(output: str, records: int) -> Consumed:
    """Read what ConsumerPerformance printed. Raises StalledError."""
    lines = [line.split(", ") for line in output.splitlines()]
    found = [fields for fields in lines if len(fields) == CONSUMED_FIELDS]
    if not found or int(found[-1][4]) < records:
        raise StalledError(f"not all {records} records were consumed: {output[-1000:]}")
    return Consumed(float(found[-1][9]), float(found[-1][8]))


@dataclass(frozen=True, slots=True)
class EndToEnd:
    """EndToEndLatency's figures: the average is exact, the quantiles are whole milliseconds, rounded down."""

    average_ms: float
    p50_ms: int
    p99_ms: int
    p999_ms: int


def end_to_end(bootstrap: str, topic: str, records: int, size: int) -> EndToEnd:
    """Send one record after the other with acks=all, each when the one before was consumed. Raises StalledError."""
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records)]
    arguments += ["--producer-acks", "all", "--record-size", str(size)]
    return end_to_end_of(run("EndToEndLatency", arguments))


def end_to_end_of(output: str) -> EndToEnd:
    """Read what EndToEndLatency printed. Raises StalledError."""
    average, quantiles = AVERAGE.search(output), PERCENTILES.search(output)
    if average is None or quantiles is None:
        raise StalledError(f"it says nothing: {output[-1000:]}")
    return EndToEnd(float(average[1]), *map(int, quantiles.groups()))
