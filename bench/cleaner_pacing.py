"""Effect of the log cleaner on a producer: latencies of acks=1 with the cleaner idle and busy, alternately, in one run.

    python -m bench.cleaner_pacing [--rounds 6] [--records 600000] [--batch 100] [--codec none|lz4] [--interval-ms 2]

One node of `kvorum dev` with its defaults, except eager cleaning. First one topic per round is filled with keyed
records, each key twice, under cleanup.policy=delete. A round then produces to another topic for some seconds, one
record with acks=1 every other millisecond over one connection, each sent at its time or after the last response; starts
the cleaner by an AlterConfigs of the round's topic to compact; and continues until the cleaner's checkpoint shows its
end. The result is the ratio of busy to idle within a round: variations of the machine affect both.
"""

import argparse
import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from bench.asker import Asker, create_topic
from bench.processes import cpu_seconds
from bench.systems import Kvorum, formatted
from kvorum.protocol.compression import Codec
from kvorum.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kvorum.protocol.records import Record, build_batch
from tests.cluster.wire.raw import Raw

IDLE_SECONDS = 4.0
BUSY_SECONDS_MAX = 120.0
LOOK_SECONDS = 0.05
VALUE = b"x" * 80
SETTINGS = {
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.segment.bytes": str(16 * 1024 * 1024),
    "log.segment.delete.delay.ms": "1000",
}


@dataclass(frozen=True, slots=True)
class Latencies:
    """Latencies of one part of a round in milliseconds, and CPU seconds of the node's processes per second."""

    p50: float
    p99: float
    p999: float
    count: int
    seconds: float
    cpu: float

    @staticmethod
    def of(found: list[float], seconds: float, cpu: float) -> "Latencies":
        """Return the quantiles of latencies in seconds."""
        ranked = sorted(found)

        def quantile(share: float) -> float:
            return ranked[min(len(ranked) - 1, int(len(ranked) * share))] * 1000

        return Latencies(quantile(0.5), quantile(0.99), quantile(0.999), len(ranked), seconds, cpu / seconds)

    def __str__(self) -> str:
        """Return a row's middle."""
        return f"p50 {self.p50:.2f}  p99 {self.p99:.2f}  p99.9 {self.p999:.2f} ms of {self.count}, CPU {self.cpu:.2f}"


class Prober:
    """Produces one record after the other and remembers how long each answer took."""

    def __init__(self, system: Kvorum, interval_seconds: float) -> None:
        self._raw = Raw(*system.address(1))
        self._interval = interval_seconds
        self._request = produce_request("probe", bytes(build_batch([Record(b"v" * 100, b"k", now_ms())])))
        self._pids = system.pids()

    def run(self, seconds: float, is_over: "Over | None" = None) -> Latencies:
        """Produce for a time, or until a condition holds."""
        found: list[float] = []
        began = due = time.perf_counter()
        cpu = cpu_seconds(self._pids)
        while (now := time.perf_counter()) - began < seconds and not (is_over and is_over.look(now)):
            if now < due:
                time.sleep(due - now)
            sent = time.perf_counter()
            answer = self._raw.ask(self._request, 9)
            found.append(time.perf_counter() - sent)
            assert answer is not None and not answer.responses[0].partition_responses[0].error_code  # type: ignore[attr-defined]
            due = max(due + self._interval, sent)
        return Latencies.of(found, time.perf_counter() - began, cpu_seconds(self._pids) - cpu)


class Over:
    """Return whether the cleaner's checkpoint has the topic's end."""

    def __init__(self, checkpoint: Path, topic: str) -> None:
        self._checkpoint, self._topic, self._next = checkpoint, topic, 0.0
        self.is_so = False

    def look(self, now: float) -> bool:
        """Look, now and then."""
        if now >= self._next:
            self._next = now + LOOK_SECONDS
            self.is_so = self._checkpoint.exists() and f"{self._topic} 0 " in self._checkpoint.read_text()
        return self.is_so


def now_ms() -> int:
    """Return the time."""
    return time.time_ns() // 1_000_000


def produce_request(topic: str, batch: bytes) -> ProduceRequest:
    """Return a request of one batch with acks=1."""
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    return ProduceRequest(acks=1, timeout=10_000, topic_data=[data])


def fill(raw: Raw, topics: list[str], records: int, batch_size: int, codec: Codec) -> None:
    """Append the same records to each topic: every key twice, far apart."""
    for first in range(0, records, batch_size):
        keys = [b"key-%08d" % ((first + each) % (records // 2)) for each in range(batch_size)]
        batch = bytes(build_batch([Record(VALUE, key, now_ms()) for key in keys], codec=codec))
        for topic in topics:
            answer = raw.ask(produce_request(topic, batch), 9)
            assert answer is not None and not answer.responses[0].partition_responses[0].error_code  # type: ignore[attr-defined]


def set_policy(system: Kvorum, topic: str, policy: str) -> None:
    """AlterConfigs, and wait for the answer."""
    admin = AdminClient({"bootstrap.servers": system.bootstrap})
    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(10)


def main() -> None:
    """Run the rounds, print each and the medians."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--records", type=int, default=600_000)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--codec", default="none")
    parser.add_argument("--interval-ms", type=float, default=2.0)
    options = parser.parse_args()
    topics = [f"dirty-{number}" for number in range(options.rounds)]
    rounds: list[tuple[Latencies, Latencies]] = []
    with formatted("kvorum", 1, SETTINGS) as system:
        assert isinstance(system, Kvorum)
        system.start()
        system.wait_ready()
        asker = Asker(system, 1)
        for topic in (*topics, "probe"):
            create_topic(asker, topic, 1)
        raw = Raw(*system.address(1))
        fill(raw, topics, options.records, options.batch, Codec[options.codec.upper()])
        raw.close()
        prober = Prober(system, options.interval_ms / 1000)
        prober.run(IDLE_SECONDS)
        for topic in topics:
            idle = prober.run(IDLE_SECONDS)
            over = Over(system.data(1) / "cleaner-offset-checkpoint", topic)
            set_policy(system, topic, "compact")
            busy = prober.run(BUSY_SECONDS_MAX, over)
            assert over.is_so, "it was not cleaned"
            rounds.append((idle, busy))
            print(f"{topic}: idle {idle}\n         busy {busy}, {busy.seconds:.1f} s (load {os.getloadavg()[0]:.2f})")
    for name in ("p50", "p99", "p999"):
        ratios = [getattr(busy, name) / getattr(idle, name) for idle, busy in rounds]
        print(
            f"{name} busy/idle: median {statistics.median(ratios):.2f} ({', '.join(f'{each:.2f}' for each in ratios)})"
        )
    rate = statistics.median(options.records / busy.seconds for _, busy in rounds)
    print(f"cleaned records a second: {rate:,.0f}")


if __name__ == "__main__":
    main()
