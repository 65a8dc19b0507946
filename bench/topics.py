"""A topic for a measurement."""

import time
from collections.abc import Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.stalled import StalledError
from bench.systems import System
from kvorum.security.librdkafka import librdkafka_security

DEADLINE_SECONDS = 60.0
LOOK_SECONDS = 0.02


def admin_of(system: System) -> AdminClient:
    """Return a client that administers a system."""
    return AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0, **librdkafka_security(system.client)})


def make_topic(
    system: System, name: str, partitions: int, replicas: int = 1, configs: Mapping[str, str] | None = None
) -> None:
    """Create a topic and wait until each of its partitions has a leader and a full ISR. Raises StalledError."""
    admin = admin_of(system)
    wanted = NewTopic(name, partitions, replicas, config=dict(configs or {}))
    try:
        for made in admin.create_topics([wanted], operation_timeout=DEADLINE_SECONDS).values():
            made.result(DEADLINE_SECONDS)
    except KafkaException as error:
        raise StalledError(f"{name} is not made: {error}") from error
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        found = admin.list_topics(name, timeout=DEADLINE_SECONDS).topics[name].partitions
        if len(found) == partitions and all(
            partition.leader >= 0 and len(partition.isrs) == replicas for partition in found.values()
        ):
            return
        time.sleep(LOOK_SECONDS)
    raise StalledError(f"{name} has no leaders")
