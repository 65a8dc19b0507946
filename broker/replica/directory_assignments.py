"""Reports the log directory of replicas to the controller if the metadata differ (KIP-858).

Many in one request, one request in flight, repeated until there is a response. An assignment that is outdated before it
is sent (the replica was removed, the metadata contain it) is dropped. One in a directory that has failed meanwhile is
still sent: the controller needs it to know which replicas failed with the directory.

Source: Kafka's AssignmentsManager.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from kvorum.broker.replica.tasks import spawn
from kvorum.broker.replica.types import ClusterView
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.runtime.logs import get_logger

ASSIGNMENTS_MAX: Final = 2_250
"""Replicas in one request (AssignReplicasToDirsRequest.MAX_ASSIGNMENTS_PER_REQUEST)."""
RETRY_BACKOFF_MS_MIN: Final = 100
RETRY_BACKOFF_MS_MAX: Final = 10_000
"""Between two tries, doubled from the first to the second, as Kafka's."""

log = get_logger("broker")


class DirectoriesController(Protocol):
    """The active controller, as far as this module needs it."""

    async def assign_replicas_to_dirs(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        """Sends to the active controller. Raises KafkaError if it cannot be reached in time."""
        ...


class Assignment(NamedTuple):
    """A replica of a topic id, and its log directory."""

    topic_id: Uuid
    directory_id: Uuid


class DirectoryAssignments:
    """One per broker. At most one assignment waits for each of its replicas."""

    def __init__(
        self,
        *,
        broker_id: int,
        broker_epoch: Callable[[], int],
        controller: DirectoriesController,
        cluster: ClusterView,
    ) -> None:
        """Start without assignments."""
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._cluster = cluster
        self._unsent: dict[TopicPartition, Assignment] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def submit(self, key: TopicPartition, topic_id: Uuid, directory_id: Uuid) -> None:
        """Send an assignment with the next request; it replaces an unsent one of the same replica."""
        self._unsent[key] = Assignment(topic_id, directory_id)
        if self._task is None and not self._closed:
            self._task = spawn("assign-directories", self._run())

    async def close(self) -> None:
        """Send nothing more; the next process will find the difference again."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        """Send as long as there is something; end with nothing unsent."""
        backoff_ms = RETRY_BACKOFF_MS_MIN
        try:
            # Assignments of the same metadata change go into the same request.
            await asyncio.sleep(0)
            while self._unsent:
                if await self._send():
                    backoff_ms = RETRY_BACKOFF_MS_MIN
                else:
                    await asyncio.sleep(backoff_ms / 1000)
                    backoff_ms = min(2 * backoff_ms, RETRY_BACKOFF_MS_MAX)
        finally:
            self._task = None

    async def _send(self) -> bool:
        """Send one request; return whether nothing of it has to be tried again."""
        batch: dict[TopicPartition, Assignment] = {}
        while self._unsent and len(batch) < ASSIGNMENTS_MAX:
            key = next(iter(self._unsent))
            assignment = self._unsent.pop(key)
            if self._is_current(key, assignment):
                batch[key] = assignment
        if not batch:
            return True
        try:
            response = await self._controller.assign_replicas_to_dirs(self._request(batch))
            if response.error_code != ErrorCode.NONE:
                raise KafkaError(ErrorCode(response.error_code), "the request was rejected")
        except KafkaError as error:
            log.warning("AssignReplicasToDirs retried", replicas=len(batch), error=error)
            self._again(batch)
            return False
        done = {
            (topic.topic_id, row.partition_index)
            for directory in response.directories
            for topic in directory.topics
            for row in topic.partitions
            if row.error_code == ErrorCode.NONE
        }
        left = {key: each for key, each in batch.items() if (each.topic_id, key.partition) not in done}
        log.info("replicas assigned to their directories", replicas=len(batch) - len(left), refused=len(left))
        self._again(left)
        return not left

    def _is_current(self, key: TopicPartition, assignment: Assignment) -> bool:
        """Return whether the metadata have this replica in another directory."""
        partition = self._cluster.partition(key.topic, key.partition)
        if partition is None or self._cluster.topic_id(key.topic) != assignment.topic_id:
            return False
        if self._broker_id not in partition.replicas:
            return False
        return partition.directory(self._broker_id) != assignment.directory_id

    def _request(self, batch: dict[TopicPartition, Assignment]) -> AssignReplicasToDirsRequest:
        directories: dict[Uuid, dict[Uuid, RequestTopicData]] = {}
        for key, (topic_id, directory_id) in batch.items():
            topics = directories.setdefault(directory_id, {})
            topic = topics.setdefault(topic_id, RequestTopicData(topic_id=topic_id))
            topic.partitions.append(RequestPartitionData(partition_index=key.partition))
        return AssignReplicasToDirsRequest(
            broker_id=self._broker_id,
            broker_epoch=self._broker_epoch(),
            directories=[
                RequestDirectoryData(id_=directory_id, topics=list(topics.values()))
                for directory_id, topics in directories.items()
            ],
        )

    def _again(self, batch: dict[TopicPartition, Assignment]) -> None:
        for key, assignment in batch.items():
            self._unsent.setdefault(key, assignment)
