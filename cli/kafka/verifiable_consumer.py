"""The loop of `kafka-verifiable-consumer`: a member of a group, each event a line of JSON.

The events and their fields are those of Kafka's VerifiableConsumer, in its order.
"""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvorum.cli.connection.librdkafka import exit_code_of
from kvorum.cli.kafka.verifiable_events import print_event, raise_interrupt
from kvorum.cli.output import Exit

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition

POLL_SECONDS = 1.0
BATCH_MAX = 500
"""max.poll.records: maximum of records in one event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """Topics to read, and events to print."""

    topic: str
    max_messages: int = -1
    auto_commit: bool = False
    verbose: bool = False


def partition_rows(partitions: "Sequence[TopicPartition]") -> list[dict[str, Any]]:
    """Return partitions as events have them."""
    return [{"topic": each.topic, "partition": each.partition} for each in partitions]


def text_of(data: bytes | str | None) -> str | None:
    """Return a key or value as text."""
    return data.decode(errors="replace") if isinstance(data, bytes) else data


def summary(messages: "Sequence[Message]") -> list[dict[str, Any]]:
    """Return count, first and last offset of each partition."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for message in messages:
        topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
        row = found.setdefault(
            (topic, partition),
            {"topic": topic, "partition": partition, "count": 0, "minOffset": offset, "maxOffset": offset},
        )
        row["count"] += 1
        row["maxOffset"] = offset
    return list(found.values())


@dataclass(slots=True)
class Run:
    """One run: reads and commits."""

    consumer: "Consumer"
    options: ConsumerOptions
    consumed: int = 0

    def subscribe(self) -> None:
        """Take part in the group."""
        self.consumer.subscribe(
            [self.options.topic],
            on_assign=lambda _, partitions: print_event("partitions_assigned", partitions=partition_rows(partitions)),
            on_revoke=lambda _, partitions: print_event("partitions_revoked", partitions=partition_rows(partitions)),
        )

    def read_all(self) -> Exit:
        """Read until there are enough; return what kind of error ended it, if one did."""
        while self.options.max_messages < 0 or self.consumed < self.options.max_messages:
            left = BATCH_MAX if self.options.max_messages < 0 else self.options.max_messages - self.consumed
            found = self.consumer.consume(min(BATCH_MAX, left), POLL_SECONDS)
            errors = [error for message in found if (error := message.error()) is not None and not error.retriable()]
            if errors:
                print_event("error", message=errors[0].str())
                return exit_code_of(errors[0])
            self.take([message for message in found if message.error() is None])
        return Exit.DONE

    def take(self, messages: "Sequence[Message]") -> None:
        """Print received records, and commit them."""
        if not messages:
            return
        if self.options.verbose:
            for message in messages:
                print_event(
                    "record_data",
                    key=text_of(message.key()),
                    value=text_of(message.value()),
                    topic=message.topic(),
                    partition=message.partition(),
                    offset=message.offset(),
                )
        rows = summary(messages)
        self.consumed += len(messages)
        print_event("records_consumed", count=len(messages), partitions=rows)
        if not self.options.auto_commit:
            self.commit(rows)

    def commit(self, rows: list[dict[str, Any]]) -> None:
        """Commit after the last records, and return whether it succeeded."""
        from confluent_kafka import KafkaException, TopicPartition

        offsets = [
            {"topic": row["topic"], "partition": row["partition"], "offset": row["maxOffset"] + 1} for row in rows
        ]
        wanted = [TopicPartition(row["topic"], row["partition"], row["offset"]) for row in offsets]
        try:
            self.consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            print_event("offsets_committed", offsets=offsets, error=error.args[0].str(), success=False)
            return
        print_event("offsets_committed", offsets=offsets, success=True)


def run_consumer(consumer: "Consumer", reading: ConsumerOptions) -> None:
    """Read until there are enough, or until SIGTERM or Ctrl-C."""
    signal.signal(signal.SIGTERM, raise_interrupt)
    run = Run(consumer, reading)
    print_event("startup_complete")
    code = Exit.DONE
    try:
        run.subscribe()
        code = run.read_all()
    except KeyboardInterrupt:
        pass  # how one ends it
    finally:
        consumer.close()
        print_event("shutdown_complete")
    if code:
        raise SystemExit(code)


def consumer_properties(
    group_id: str, protocol: str, reset_policy: str, auto_commit: bool, instance_id: str | None
) -> dict[str, Any]:
    """Return the properties of a verifiable consumer."""
    own: dict[str, Any] = {
        "group.id": group_id,
        "group.protocol": protocol,
        "auto.offset.reset": "error" if reset_policy == "none" else reset_policy,
        "enable.auto.commit": auto_commit,
    }
    return own | ({"group.instance.id": instance_id} if instance_id is not None else {})
