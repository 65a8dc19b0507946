"""Which manager leads: who has the one partition of the config topic in the managers' consumer group.

The group is cooperative and sticky: who leads stays leader when others come and go. Each member's client id is the URL
it can be reached at, so that any manager learns from the group itself where the leader is.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

SESSION_MS: Final = 10_000
METADATA_MS: Final = 2_000
POLL_SECONDS: Final = 0.5
ASK_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 15.0

log = logging.getLogger("kvorum.pipelines.connect.election")


class Election(Protocol):
    """Tells who leads."""

    def begin(self, changed: Callable[[bool], None]) -> None:
        """Take part; `changed` is called in the loop with whether this manager leads now."""
        ...

    async def leader(self) -> str | None:
        """Return the leader's URL, None without a leader."""
        ...

    async def end(self) -> None:
        """Leave, so that another one leads at once."""
        ...


class Alone:
    """No election: the only manager there is leads."""

    def begin(self, changed: Callable[[bool], None]) -> None:
        """Lead at once."""
        changed(True)

    async def leader(self) -> str | None:
        """Return the leader's URL, None without a leader."""
        return None

    async def end(self) -> None:
        """Nothing is left behind."""


class GroupElection:
    """Leader election through a consumer group. The consumer runs in its own thread."""

    def __init__(
        self, client: dict[str, str], *, group: str, topic: str, url: str, session_ms: int = SESSION_MS
    ) -> None:
        """Take the client's settings, the group, the config topic, and this manager's URL."""
        self._client = client
        self._settings = {
            **client,
            "group.id": group,
            "client.id": url,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": max(500, session_ms // 10),
            # A broker that has not heard of the topic yet is asked again soon: the client's own word is five minutes.
            "topic.metadata.refresh.interval.ms": METADATA_MS,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
        }
        self._group = group
        self._topic = topic
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._admin: AdminClient | None = None
        self._asking: asyncio.Task[str | None] | None = None

    def begin(self, changed: Callable[[bool], None]) -> None:
        """Join the group in a thread."""
        loop = asyncio.get_running_loop()

        def tell(leads: bool) -> None:
            try:
                loop.call_soon_threadsafe(changed, leads)
            except RuntimeError:
                self._ended.set()  # the loop is closed: there is nobody left to tell

        self._thread = threading.Thread(target=self._take_part, args=(tell,), name="connect-election", daemon=True)
        self._thread.start()

    def _take_part(self, tell: Callable[[bool], None]) -> None:
        def assigned(consumer: Any, partitions: list[TopicPartition]) -> None:
            consumer.incremental_assign(partitions)
            if partitions:
                consumer.pause(partitions)  # it is for who leads; the records are read elsewhere
                tell(True)

        def taken(consumer: Any, partitions: list[TopicPartition]) -> None:
            if partitions:
                tell(False)
            consumer.incremental_unassign(partitions)

        consumer = Consumer(self._settings)
        consumer.subscribe([self._topic], on_assign=assigned, on_revoke=taken, on_lost=taken)
        while not self._ended.is_set():
            try:
                message = consumer.poll(POLL_SECONDS)
            except KafkaException as error:
                log.warning("leader election failed error=%s", error)
                continue
            if message is not None and message.error() is not None:
                log.info("leader election failed error=%s", message.error())
        consumer.close()

    async def leader(self) -> str | None:
        """Ask the group's coordinator; who asks meanwhile gets the same answer."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(asyncio.to_thread(self._leader))
        return await asyncio.shield(self._asking)

    def _leader(self) -> str | None:
        if self._admin is None:
            self._admin = AdminClient(dict(self._client))
        try:
            told = self._admin.describe_consumer_groups([self._group], request_timeout=ASK_SECONDS)
            members = told[self._group].result(ASK_SECONDS).members
        except (KafkaException, TimeoutError) as error:
            log.warning("leader lookup failed error=%r", error)
            return None
        leads = [m.client_id for m in members if m.assignment and m.assignment.topic_partitions]
        return str(leads[0]) if len(leads) == 1 else None

    async def end(self) -> None:
        """Leave the group."""
        self._ended.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, CLOSE_SECONDS)
