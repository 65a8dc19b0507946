"""A topic for a measurement."""

import time

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.report import StalledError
from bench.systems import System

DEADLINE_SECONDS = 60.0
LOOK_SECONDS = 0.02


def make_topic(system: System, name: str, partitions: int) -> None:
    """Create a topic and wait until each of its partitions has a leader. Raises StalledError."""
    admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})
    for made in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        made.result(DEADLINE_SECONDS)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        found = admin.list_topics(name, timeout=DEADLINE_SECONDS).topics[name].partitions
        if len(found) == partitions and all(partition.leader >= 0 for partition in found.values()):
            return
        time.sleep(LOOK_SECONDS)
    raise StalledError(f"{name} has no leaders")
