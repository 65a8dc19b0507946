"""One consumer in a group of its own, of any of three clients, behind the same few methods."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from tests.cluster.clients import eventually
from tests.cluster.group_member import know_topic

R = TypeVar("R")
Row = tuple[int, int, bytes]
"""Partition, offset, value."""
AUTO_COMMIT_MS = 200


class OneConsumer(Protocol):
    """What a test asks of a consumer; `poll` waits for a moment only."""

    def poll(self) -> list[Row]: ...

    def assigned(self) -> set[int]: ...

    def commit(self, *, asynchronous: bool) -> None:
        """Commit what was read; asynchronous: return at once, and be told in a later poll.

        A client that rejoins its group may not even ask: whoever calls looks, and calls again.
        """
        ...

    def committed(self, partition: int) -> int | None: ...

    def offset_at(self, partition: int, timestamp: int) -> int: ...

    def seek(self, partition: int, offset: int) -> None: ...

    def pause(self, partition: int) -> None: ...

    def resume(self, partition: int) -> None: ...

    def close(self) -> None: ...


class ByConfluent:
    """confluent-kafka."""

    def __init__(self, bootstrap: str, group: str, topic: str, *, auto_commit: bool) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self._topic, self._row = topic, TopicPartition
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": auto_commit,
                "auto.commit.interval.ms": AUTO_COMMIT_MS,
            }
        )
        self._consumer.subscribe([topic])

    def poll(self) -> list[Row]:
        found = [each for each in self._consumer.consume(100, 0.2) if each.error() is None]
        return [(each.partition(), each.offset(), each.value()) for each in found]

    def assigned(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self, *, asynchronous: bool) -> None:
        self._consumer.commit(asynchronous=asynchronous)

    def committed(self, partition: int) -> int | None:
        (row,) = self._consumer.committed([self._row(self._topic, partition)], 30)
        assert row.error is None, row
        return row.offset if row.offset >= 0 else None

    def offset_at(self, partition: int, timestamp: int) -> int:
        (row,) = self._consumer.offsets_for_times([self._row(self._topic, partition, timestamp)], 30)
        return int(row.offset)

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(self._row(self._topic, partition, offset))

    def pause(self, partition: int) -> None:
        self._consumer.pause([self._row(self._topic, partition)])

    def resume(self, partition: int) -> None:
        self._consumer.resume([self._row(self._topic, partition)])

    def close(self) -> None:
        self._consumer.close()


class ByKafkaPython:
    """kafka-python."""

    def __init__(self, bootstrap: str, group: str, topic: str, *, auto_commit: bool) -> None:
        from kafka import KafkaConsumer, TopicPartition

        self._topic, self._row = topic, TopicPartition
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=auto_commit,
            auto_commit_interval_ms=AUTO_COMMIT_MS,
        )
        self._consumer.subscribe([topic])
        know_topic(self._consumer, topic)
        # Join without a limit of time: a poll that times out may discard its join (see by_kafka_python).
        self._consumer._coordinator.ensure_active_group()

    def poll(self) -> list[Row]:
        found = self._consumer.poll(timeout_ms=200).values()
        return [(each.partition, each.offset, each.value) for records in found for each in records]

    def assigned(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self, *, asynchronous: bool) -> None:
        from kafka.errors import RebalanceInProgressError

        if asynchronous:
            self._consumer.commit_async()
        else:
            with suppress(RebalanceInProgressError):
                self._consumer.commit()

    def committed(self, partition: int) -> int | None:
        found: int | None = self._consumer.committed(self._row(self._topic, partition))
        return found

    def offset_at(self, partition: int, timestamp: int) -> int:
        key = self._row(self._topic, partition)
        return int(self._consumer.offsets_for_times({key: timestamp})[key].offset)

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(self._row(self._topic, partition), offset)

    def pause(self, partition: int) -> None:
        self._consumer.pause(self._row(self._topic, partition))

    def resume(self, partition: int) -> None:
        self._consumer.resume(self._row(self._topic, partition))

    def close(self) -> None:
        self._consumer.close()


class ByAiokafka:
    """aiokafka, on a loop of its own that runs while something is asked."""

    def __init__(self, bootstrap: str, group: str, topic: str, *, auto_commit: bool) -> None:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        self._topic, self._row = topic, TopicPartition
        self._loop = asyncio.new_event_loop()

        async def start() -> Any:
            consumer = AIOKafkaConsumer(
                topic,
                bootstrap_servers=bootstrap,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=auto_commit,
                auto_commit_interval_ms=AUTO_COMMIT_MS,
            )
            await consumer.start()
            return consumer

        self._consumer = self._run(start())
        self._commits: list[asyncio.Task[None]] = []

    def _run(self, work: Coroutine[Any, Any, R]) -> R:
        return self._loop.run_until_complete(work)

    def poll(self) -> list[Row]:
        found = self._run(self._consumer.getmany(timeout_ms=200)).values()
        return [(each.partition, each.offset, each.value) for records in found for each in records]

    def assigned(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self, *, asynchronous: bool) -> None:
        if asynchronous:
            self._commits.append(self._loop.create_task(self._consumer.commit()))
        else:
            self._run(self._consumer.commit())

    def committed(self, partition: int) -> int | None:
        found: int | None = self._run(self._consumer.committed(self._row(self._topic, partition)))
        return found

    def offset_at(self, partition: int, timestamp: int) -> int:
        key = self._row(self._topic, partition)
        return int(self._run(self._consumer.offsets_for_times({key: timestamp}))[key].offset)

    def seek(self, partition: int, offset: int) -> None:
        self._run(self._called("seek", partition, offset))

    def pause(self, partition: int) -> None:
        self._run(self._called("pause", partition))

    def resume(self, partition: int) -> None:
        self._run(self._called("resume", partition))

    async def _called(self, method: str, partition: int, *values: int) -> None:
        """Call what is no coroutine, and wants a running loop."""
        getattr(self._consumer, method)(self._row(self._topic, partition), *values)

    def close(self) -> None:
        self._run(self._consumer.stop())
        self._loop.close()


CONSUMERS: dict[str, type[ByConfluent] | type[ByKafkaPython] | type[ByAiokafka]] = {
    "confluent": ByConfluent,
    "kafka-python": ByKafkaPython,
    "aiokafka": ByAiokafka,
}


def read(consumer: OneConsumer, count: int) -> list[Row]:
    """Return the next so many records, in the order in which they came; fail if more come."""
    found: list[Row] = []

    def enough() -> bool:
        found.extend(consumer.poll())
        return len(found) >= count

    eventually(enough, lambda: f"{count} records, {len(found)} came")
    assert len(found) == count, f"{len(found)} came"
    return found
