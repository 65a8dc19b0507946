"""Consumers by confluent-kafka with assigned partitions: one thread each, and the polls that final reads share.

After every poll the client's position is compared with its result. A truncated log (KIP-320) or an offset out of range
is an error to this consumer, never a silent jump: it reports it and restarts at the beginning.
"""

import threading
import time
from random import Random
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from kvorum.chaos.client_access import ClientAccess
from kvorum.chaos.history import Info, MicroOp, Ok, PolledRecord
from kvorum.chaos.workload.libraries import CONFLUENT
from kvorum.chaos.workload.plan import AssignClients
from kvorum.chaos.workload.recorder import Recorder, decode_value, partition_names, partition_words, split_partition
from kvorum.chaos.workload.threads import client_thread

POLL_SECONDS: Final = 0.3
POLL_RECORDS_MAX: Final = 500
LOST_PLACE: Final = frozenset({"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE", "_LOG_TRUNCATION", "_INVALID_ARG"})
"""Errors after which a consumer has no position in a partition."""


class AssignedConsumer:
    """A consumer with its process number. One thread uses it."""

    def __init__(
        self,
        recorder: Recorder,
        access: ClientAccess,
        *,
        isolation: str = "read_committed",
        final: bool = False,
        client_id: str = "kvorum-chaos-assign",
        rack: str = "",
    ) -> None:
        """Create a process in the history."""
        self._recorder = recorder
        self._final = final
        self.process = recorder.process(CONFLUENT, isolation=isolation)
        self.partitions: list[str] = []
        self.positions: dict[str, int] = {}
        """One past the last offset of a poll; of final reads also past invisible records, at the end."""
        self._consumer = Consumer(
            {
                **access.librdkafka(),
                "client.id": client_id,
                "client.rack": rack,
                "group.id": f"{client_id}-{self.process}",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "isolation.level": isolation,
                "enable.partition.eof": final,
                "fetch.wait.max.ms": 200,
                "fetch.error.backoff.ms": 50,
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "socket.timeout.ms": 10_000,
                "topic.metadata.refresh.interval.ms": 5_000,
                "log_level": 0,
            }
        )

    def assign(self, partitions: list[str]) -> None:
        """Take these partitions from their beginning on, instead of the present ones."""
        value = partition_words(partitions)
        op = self._recorder.invoke(self.process, "assign", value, final=self._final, seek_to_beginning=True)
        self._consumer.assign([TopicPartition(*split_partition(each), OFFSET_BEGINNING) for each in partitions])
        self.partitions, self.positions = list(partitions), {}
        self._recorder.complete(op, Ok, value, seek_to_beginning=True)

    def poll(self, seconds: float = POLL_SECONDS) -> int:
        """Poll once; returns how many records came. A lost place leads to a new assignment."""
        op = self._recorder.invoke(self.process, "poll", [["poll"]], final=self._final)
        try:
            messages = self._consumer.consume(POLL_RECORDS_MAX, seconds)
        except KafkaException as error:
            self._recorder.complete(op, Info, error=error.args[0].name())
            return 0
        found: dict[str, list[PolledRecord]] = {}
        errors: list[str] = []
        reached: dict[str, int] = {}
        for message in messages:
            failed: KafkaError | None = message.error()
            if failed is not None and failed.code() == KafkaError._PARTITION_EOF:
                reached[f"{message.topic()}-{message.partition()}"] = message.offset() or 0
                continue
            if failed is not None:
                errors.append(failed.name())
                continue
            name = f"{message.topic()}-{message.partition()}"
            epoch = message.leader_epoch()
            offset = message.offset()
            assert offset is not None, "a record has one"
            record = [offset, decode_value(message.value())]
            found.setdefault(name, []).append(record if epoch is None or epoch < 0 else [*record, epoch])
        micro: MicroOp = ["poll", found]
        self._recorder.complete(op, Ok, [micro], error=",".join(sorted(set(errors))) or None)
        self._hold_positions(found)
        self.positions |= reached
        if LOST_PLACE.intersection(errors):
            self.assign(self.partitions)
        return sum(map(len, found.values()))

    def _hold_positions(self, found: dict[str, list[PolledRecord]]) -> None:
        partitions = [TopicPartition(*split_partition(name)) for name in found]
        for at in self._consumer.position(partitions) if partitions else ():
            name = f"{at.topic}-{at.partition}"
            expected = found[name][-1][0] + 1
            # Markers and aborted records are skipped without being returned.
            if at.offset < expected or (at.offset > expected and not self._recorder.transactional):
                self._recorder.problem(
                    f"process {self.process} polled {name} up to offset {expected - 1} and its position is {at.offset}"
                )
            self.positions[name] = max(at.offset, expected)

    def close(self) -> None:
        """End the client."""
        self._consumer.close()

    def crash(self) -> None:
        """Die; the process is never used again."""
        op = self._recorder.invoke(self.process, "crash", [])
        self._recorder.complete(op, Info)
        self._recorder.abandon(self.process)
        self._consumer.close()


class ConfluentReader:
    """A thread that polls, now and then changes its partitions, or dies and restarts as another."""

    def __init__(
        self, plan: AssignClients, topics: dict[str, int], access: ClientAccess, recorder: Recorder, rng: Random
    ) -> None:
        """Create it; `start` starts it."""
        self._plan = plan
        self._names = partition_names(topics)
        self._access = access
        self._recorder = recorder
        self._rng = rng
        self._stop = threading.Event()
        self._thread = client_thread("chaos-assign", self._run, recorder)

    def start(self) -> None:
        """Start reading."""
        self._thread.start()

    def stop(self) -> None:
        """Stop polling."""
        self._stop.set()

    def join(self) -> None:
        """Wait for the last poll."""
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            consumer = AssignedConsumer(
                self._recorder, self._access, isolation=self._plan.isolation, rack=self._plan.rack
            )
            ends = time.monotonic() + self._around(self._plan.crash_every or float("inf"))
            while not self._stop.is_set() and time.monotonic() < ends:
                consumer.assign(self._draw_partitions())
                until = min(ends, time.monotonic() + self._around(self._plan.reassign_every))
                while not self._stop.is_set() and time.monotonic() < until:
                    consumer.poll()
            if self._stop.is_set():
                consumer.close()
            else:
                consumer.crash()

    def _draw_partitions(self) -> list[str]:
        """Return all partitions, or half of them."""
        if len(self._names) < 2 or self._rng.random() < 0.5:
            return list(self._names)
        return sorted(self._rng.sample(self._names, (len(self._names) + 1) // 2))

    def _around(self, seconds: float) -> float:
        return seconds * (0.5 + self._rng.random())
