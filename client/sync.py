"""The synchronous API: each method of `Cluster` and its namespaces as a function that waits for the result.

Written by tools/generate_sync.py; do not change it by hand.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from kvorum.client.cluster import CLIENT_ID, Cluster
from kvorum.client.loop_thread import LoopThread
from kvorum.client.namespaces.topics import Topics
from kvorum.client.values.topic import CreatedTopic, NewTopic, Topic
from kvorum.client.wire.cluster_client import TIMEOUT_MS
from kvorum.protocol.errors import KafkaError


class SyncCluster:
    """A Kafka cluster, with a namespace per noun, for scripts, notebooks and tests. Close it. Thread-safe.

    It runs a `Cluster` on an event loop in a thread.
    """

    def __init__(self, cluster: Cluster) -> None:
        """Use this cluster, which no event loop has used yet. Raises Unreachable."""
        self._thread = LoopThread()
        self._cluster = cluster
        try:
            self._thread.run(cluster.__aenter__())
        except BaseException:
            self._thread.close()
            raise
        self.topics = SyncTopics(self._thread, cluster.topics)

    @classmethod
    def connect(
        cls, bootstrap: str | Sequence[str], *, client_id: str = CLIENT_ID, request_timeout_ms: int = TIMEOUT_MS
    ) -> Self:
        """Return a cluster, to be used with `with`, which raises Unreachable if no broker is.

        `bootstrap`: one or more HOST:PORT, as a list or separated by commas. Raises ValueError for any other text.
        """
        return cls(Cluster.connect(bootstrap, client_id=client_id, request_timeout_ms=request_timeout_ms))

    def close(self) -> None:
        """Close all connections. Idempotent."""
        if not self._thread.is_closed:
            self._thread.run(self._cluster.close())
            self._thread.close()

    def __enter__(self) -> Self:
        """Return the connected cluster."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close all connections."""
        self.close()


class SyncTopics:
    """Topics of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, thread: LoopThread, namespace: Topics) -> None:
        """Run this namespace on this thread."""
        self._thread, self._namespace = thread, namespace

    def list(self, pattern: str = "*", *, internal: bool = False) -> Sequence[Topic]:
        """Return the topics by name, without configs and offsets; `pattern`: a name with * and ?."""
        return self._thread.run(self._namespace.list(pattern, internal=internal))

    def describe(self, name: str) -> Topic:
        """Return a topic with its configs, eligible leader replicas and offsets."""
        return self._thread.run(self._namespace.describe(name))

    def create(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Create a topic; None: the cluster's defaults. `assignments`: replicas per partition, instead of numbers.

        Raises KafkaError TOPIC_ALREADY_EXISTS, INVALID_REPLICATION_FACTOR, ...
        """
        return self._thread.run(
            self._namespace.create(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                assignments=assignments,
                configs=configs,
                validate_only=validate_only,
            )
        )

    def create_many(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics with one request; return the result or the error of each, by name."""
        return self._thread.run(self._namespace.create_many(topics, validate_only=validate_only))

    def delete(self, name: str) -> None:
        """Delete a topic with its records. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, ..."""
        return self._thread.run(self._namespace.delete(name))
