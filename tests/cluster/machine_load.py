"""Traffic of a workstation: a verifying producer that measures, and a group that follows."""

import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from confluent_kafka import Consumer, KafkaError

from tests.cluster.clients import assert_all_there_once_in_order, eventually, read_all
from tests.cluster.load import Load
from tests.cluster.machines import Machines

STATISTICS_MS = 200
RECONNECT_MS_MAX = 500
"""librdkafka waits up to 10 s, also for a broker that is back since: the pause would be the client's."""
CAUGHT_UP_SECONDS = 110.0


class MachineLoad(Load):
    """A load from the workstation. Notes the longest time without an acknowledgement, disconnects, and errors."""

    def __init__(
        self, machines: Machines, bootstrap: str, topic: str, partitions: int, client: Mapping[str, Any]
    ) -> None:
        self.machines, self.bootstrap, self.client = machines, bootstrap, dict(client)
        self.errors: list[str] = []
        self.disconnects: Counter[str] = Counter()
        self._states: defaultdict[int, str] = defaultdict(str)
        self._longest_s, self._last_s = 0.0, time.monotonic()
        options = self.client | {
            "error_cb": lambda error: self.errors.append(str(error)),
            "stats_cb": self._note_statistics,
            "statistics.interval.ms": STATISTICS_MS,
            "reconnect.backoff.max.ms": RECONNECT_MS_MAX,
        }
        # The client's threads are those of the workstation, as is the one that makes it.
        machines.call(lambda: Load.__init__(self, bootstrap, topic, partitions, **options))

    def _note_statistics(self, text: str) -> None:
        for name, broker in json.loads(text)["brokers"].items():
            self.disconnects[name] = broker["disconnects"]
            self._states[broker["nodeid"]] = broker["state"]

    def wait_until_not_connecting(self, broker: int) -> None:
        """Wait for the end of an attempt to connect to a lost machine, which TCP retries for some seconds."""
        eventually(lambda: self._states[broker] in ("UP", "INIT"), lambda: f"no attempt at {broker}: {self._states}")

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        now = time.monotonic()
        self._longest_s, self._last_s = max(self._longest_s, now - self._last_s), now
        super()._delivered(error, message)

    @contextmanager
    def unavailability(self, result: list[float]) -> Iterator[None]:
        """Append the longest time without an acknowledgement during the block, and until one after it."""
        self.wait_for_more(1)
        self._longest_s, self._last_s = 0.0, time.monotonic()
        yield
        self.wait_for_more(1)
        result.append(max(self._longest_s, time.monotonic() - self._last_s))

    def assert_all_acked_once_in_order(self) -> None:
        """See Load."""
        assert not self.sent.failed, self.sent.failed[:3]
        assert len(self.sent.acked) == self.count > 0
        topic, partitions = self._topic, self._partitions
        found = self.machines.call(lambda: read_all(self.bootstrap, topic, partitions, **self.client))
        assert_all_there_once_in_order(found, self.sent.acked)
        assert sum(map(len, found.values())) == self.count


class Follower:
    """A consumer of a group on the workstation. Records are committed once they are in `seen`: (topic, value)."""

    def __init__(
        self, machines: Machines, bootstrap: str, topics: list[str], client: Mapping[str, Any], seen: set[Any]
    ) -> None:
        config = {"bootstrap.servers": bootstrap, "group.id": "followers", "auto.offset.reset": "earliest", **client}
        self.seen = seen
        self._stop = threading.Event()
        self._consumer = machines.call(lambda: Consumer(config | {"enable.auto.commit": False}))
        self._consumer.subscribe(topics)
        self._thread = threading.Thread(target=self._run, name="follower")

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                self.seen.add((message.topic(), message.value()))
                self._consumer.commit(message=message, asynchronous=True)
        self._consumer.close()

    def __enter__(self) -> "Follower":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def wait_for(self, topic: str, acked: Iterable[bytes]) -> None:
        """Wait until the group has processed all these records."""
        wanted = {(topic, value) for value in acked}
        eventually(
            lambda: wanted <= self.seen,
            lambda: f"{len(wanted - self.seen)} of {len(wanted)} records were not consumed",
            CAUGHT_UP_SECONDS,
        )
