"""A producer that never pauses: records are on their way whenever a test strikes."""

import threading
import time
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaError, Producer

from tests.cluster.clients import Sent, assert_all_there_once_in_order, eventually, read_all

OUTSTANDING_MAX = 50
TICK_SECONDS = 0.005
"""At most OUTSTANDING_MAX records a tick: some thousands a second, so that reading them back stays short."""
FLUSH_SECONDS = 120.0


class Load:
    """Sends numbered records from a thread, idempotent and with acks=all, until the `with` block ends.

    Delivery reports are taken as they come, so `len(producer)` counts what the cluster has not answered.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, **options: Any) -> None:
        self.sent = Sent()
        self.count = 0
        """Handed to the producer; each is its number in eight digits."""
        self.acked_up_to = -1
        """The highest number acknowledged."""
        self._bootstrap, self._topic, self._partitions = bootstrap, topic, partitions
        config = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all", "linger.ms": 0}
        self._producer = Producer(config | {"message.timeout.ms": 120_000, "log_level": 0} | options)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(FLUSH_SECONDS if error is None else 0.0)
        assert error is not None or left == 0, f"{left} records were neither acknowledged nor refused"

    def _run(self) -> None:
        while not self._stop.is_set():
            while len(self._producer) < OUTSTANDING_MAX:
                value = b"%08d" % self.count
                partition = self.count % self._partitions
                self._producer.produce(self._topic, value, value, partition=partition, on_delivery=self._delivered)
                self.count += 1
            tick_ends = time.monotonic() + TICK_SECONDS
            while (left := tick_ends - time.monotonic()) > 0:
                self._producer.poll(left)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self.sent.acked[message.value()] = (message.partition(), message.offset())
            self.acked_up_to = max(self.acked_up_to, int(message.value()))
        else:
            self.sent.failed.append((message.value(), str(error)))

    def wait_until_outstanding(self, after_seconds: float = 0.0) -> None:
        """Return, once so much time has passed, at a moment when records are on their way."""
        began = time.monotonic()
        outstanding = eventually(
            lambda: time.monotonic() - began >= after_seconds and len(self._producer), "records on their way"
        )
        assert outstanding > 0

    def wait_for_more(self, records: int = 200) -> None:
        """Wait until so many are acknowledged of those that are sent from now on."""
        wanted = self.count + records
        eventually(lambda: self.acked_up_to >= wanted, lambda: f"acknowledged up to {self.acked_up_to}, not {wanted}")

    def run_for(self, seconds: float) -> None:
        """Let so much time pass, and see that records are still acknowledged at its end."""
        until = time.monotonic() + seconds
        eventually(lambda: time.monotonic() >= until, "the time to pass", seconds + 1)
        self.wait_for_more()

    def assert_all_acked_once_in_order(self) -> None:
        """After the block: all that was sent was acknowledged, and is what the topic holds: once, in order, no more."""
        assert not self.sent.failed, self.sent.failed[:3]
        assert len(self.sent.acked) == self.count > 0
        found = read_all(self._bootstrap, self._topic, self._partitions)
        assert_all_there_once_in_order(found, self.sent.acked)
        assert sum(map(len, found.values())) == self.count
