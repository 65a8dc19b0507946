"""A large group of confluent-kafka's consumers in this process, and whether everyone has its share."""

import threading
import time
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer

from bench.stalled import StalledError
from bench.systems import System

DEADLINE_SECONDS = 120.0
LOOK_SECONDS = 0.01


def is_shared_out(shares: Sequence[Sequence[int]], partitions: int) -> bool:
    """Return whether the assignment is balanced: every partition has one owner, and counts differ by one at most."""
    sizes = [len(share) for share in shares]
    everything = sorted(partition for share in shares for partition in share)
    return everything == list(range(partitions)) and max(sizes) - min(sizes) <= 1 and min(sizes) > 0


class Group:
    """Consumers of one group, polled in turn by the waiting thread."""

    def __init__(self, system: System, group_id: str, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        self._topic, self._partitions = topic, partitions
        self._config = {
            "bootstrap.servers": system.bootstrap,
            "group.id": group_id,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "log_level": 0,
            **settings,
        }
        self.consumers: list[Consumer] = []

    def add(self) -> None:
        """Subscribe one more member."""
        consumer = Consumer(self._config)
        consumer.subscribe([self._topic])
        self.consumers.append(consumer)

    def remove(self) -> threading.Thread:
        """Remove the newest member while the others poll."""
        leaving = threading.Thread(target=self.consumers.pop().close)
        leaving.start()
        return leaving

    def poll(self, seconds: float) -> None:
        """Serve all for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._poll_once()

    def settle(self) -> float:
        """Serve all until everyone has its share; return when that was (perf_counter). Raises StalledError."""
        end = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < end:
            self._poll_once()
            shares = [[row.partition for row in consumer.assignment()] for consumer in self.consumers]
            if is_shared_out(shares, self._partitions):
                return time.perf_counter()
        raise StalledError(f"{len(self.consumers)} members have no shares that fit")

    def _poll_once(self) -> None:
        for consumer in self.consumers:
            message = consumer.poll(0)
            if message is not None and message.error():
                raise StalledError(str(message.error()))
        time.sleep(LOOK_SECONDS)

    def close(self) -> None:
        """Remove all members."""
        closing = [threading.Thread(target=consumer.close) for consumer in self.consumers]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()
