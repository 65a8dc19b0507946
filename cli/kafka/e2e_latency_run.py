"""The measurement of `kafka-e2e-latency`: one record after the other, from its send until it is read."""

import random
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kvorum.cli.kafka.java_numbers import java_double
from kvorum.cli.output import fail, say

if TYPE_CHECKING:
    from confluent_kafka import Message

POLL_SECONDS: Final = 60.0
PROGRESS_EVERY: Final = 1_000


class LatencyRecord(NamedTuple):
    """A record to send and to receive."""

    key: bytes
    value: bytes
    headers: list[tuple[str, bytes | None]]


def measure(producer: Any, consumer: Any, topic: str, count: int, sizes: dict[str, int]) -> list[int]:
    """Send and read this number of records; return the ns of each."""
    chance = random.Random(0)
    latencies: list[int] = []
    for number in range(count):
        sent = random_record(chance, sizes)
        failures: list[str] = []
        started_ns = time.perf_counter_ns()
        producer.produce(
            topic,
            sent.value,
            sent.key,
            headers=sent.headers or None,
            on_delivery=lambda error, _, failures=failures: failures.append(str(error)) if error else None,
        )
        if producer.flush(POLL_SECONDS) or failures:
            fail(f"a record was not acknowledged: {(failures or ['timed out'])[0]}")
        message = consumer.poll(POLL_SECONDS)
        latency_ns = time.perf_counter_ns() - started_ns
        validate(sent, message)
        if number % PROGRESS_EVERY == 0:
            say(f"{number}\t{java_double(latency_ns / 1_000_000)}")
        latencies.append(latency_ns)
    return latencies


def random_record(chance: random.Random, sizes: dict[str, int]) -> LatencyRecord:
    """Create a random record: each part is one capital letter, repeated, as in Kafka's tool."""

    def letters(size: int) -> bytes:
        return bytes([chance.randrange(65, 91)]) * size

    key, value = letters(sizes["record_key_size"]), letters(sizes["record_size"])
    size = sizes["record_header_size"]
    names = [letters(sizes["record_header_key_size"]).decode() for _ in range(sizes["num_headers"])]
    return LatencyRecord(key, value, [(name, None if size < 0 else letters(size)) for name in names])


def validate(sent: LatencyRecord, message: "Message | None") -> None:
    """End the command if the received record differs from the sent one."""
    if message is None:
        fail(f"poll() timed out before finding a result (timeout:[{POLL_SECONDS * 1000:g}ms])")
    error = message.error()
    if error is not None:
        fail(str(error))
    got = (message.key() or b"", message.value() or b"", list(message.headers() or []))
    for what, expected, found in zip(("key", "value", "headers"), sent, got, strict=True):
        if expected != found:
            fail(f"The message {what} read [{found!r}] did not match the message {what} sent [{expected!r}]")


def result_lines(latencies: list[int]) -> list[str]:
    """Return the last lines: latencies are cut to whole ms, as Kafka's are."""
    ordered = sorted(each // 1_000_000 for each in latencies)
    p50, p99, p999 = (ordered[int(len(ordered) * part)] for part in (0.5, 0.99, 0.999))
    average = sum(latencies) / len(latencies) / 1_000_000
    return [f"Avg latency: {average:.4f} ms", f"Percentiles: 50th = {p50}, 99th = {p99}, 99.9th = {p999}"]
