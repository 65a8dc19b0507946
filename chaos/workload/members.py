"""Members of consumer groups by confluent-kafka: their partitions over time, their start offsets, and their ends.

    assigned        committed offsets are fetched (require-stable, since it reads at read_committed), then it owns them
    revoked         it does not own them from then on, and answers after
    lost            others may own them already

The generation is read from librdkafka's group metadata (a tag, then a number of 32 bits in the machine's order), which
its commits carry. A killed member does not send LeaveGroup: its session has to expire.
"""

import struct
import threading
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from kvorum.chaos.client_access import ClientAccess
from kvorum.chaos.history import Fail, Info, MicroOp, Ok, OperationValue, Owned, PolledRecord
from kvorum.chaos.workload.classify import kafka_name
from kvorum.chaos.workload.plan import GroupClients
from kvorum.chaos.workload.recorder import Recorder, decode_value, partition_words, split_partition
from kvorum.chaos.workload.senders import SILENT

METADATA_TAG: Final = b"CGMDv2:"
FETCH_SECONDS: Final = 5.0
NO_GENERATION: Final = -1


def member_settings(
    plan: GroupClients, access: ClientAccess, isolation: str
) -> dict[str, str | int | float | bool | object]:
    """Return librdkafka's settings of a member."""
    settings: dict[str, str | int | float | bool | object] = {
        **access.librdkafka(),
        "client.id": f"kvorum-chaos-{plan.group_id}",
        "group.id": plan.group_id,
        "group.protocol": plan.protocol,
        "client.rack": plan.rack,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        "isolation.level": isolation,
        "fetch.wait.max.ms": 200,
        "fetch.error.backoff.ms": 50,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        "socket.timeout.ms": 10_000,
        "topic.metadata.refresh.interval.ms": 5_000,
        "log_level": 0,
        "logger": SILENT,
    }
    if plan.protocol == "classic":
        settings |= {
            "session.timeout.ms": int(plan.session * 1000),
            "heartbeat.interval.ms": max(200, int(plan.session * 1000 / 6)),
            "partition.assignment.strategy": plan.assignor,
        }
    return settings


class Member:
    """One member for one life. One thread uses it; callbacks come within its polls."""

    def __init__(
        self,
        plan: GroupClients,
        topics: list[str],
        access: ClientAccess,
        recorder: Recorder,
        process: int,
        isolation: str,
    ) -> None:
        """Subscribe; `process` is its own in the history."""
        self.process = process
        self.owned: dict[str, int] = {}
        """{partition: next offset}."""
        self._plan = plan
        self._recorder = recorder
        self._cooperative = plan.protocol == "consumer" or plan.assignor == "cooperative-sticky"
        self._rebalanced: set[str] = set()
        self.consumer = Consumer(member_settings(plan, access, isolation))
        self.consumer.subscribe(topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke)

    # --- callbacks ---------------------------------------------------------------------------------------------------

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        names = [f"{each.topic}-{each.partition}" for each in partitions]
        places = self.fetch_committed(names) if names else {}
        for each, name in zip(partitions, names, strict=True):
            place = places.get(name)
            if place is not None:
                each.offset = place if place >= 0 else OFFSET_BEGINNING
        if self._cooperative:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)
            self.owned = {}
        self.owned |= {name: max(0, places.get(name) or 0) for name in names}
        self._rebalanced.update(names)
        self._tell()

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        names = {f"{each.topic}-{each.partition}" for each in partitions}
        self.owned = {name: at for name, at in self.owned.items() if name not in names} if self._cooperative else {}
        self._rebalanced.update(names)
        self._tell()
        if self._cooperative:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()

    def _tell(self) -> None:
        """Write its present partitions."""
        names, generation = sorted(self.owned), self.generation
        self._recorder.write(
            lambda t: Owned(
                t=t,
                process=self.process,
                group=self._plan.group_id,
                partitions=names,
                protocol=self._plan.protocol,
                member=self.consumer.memberid() or "",
                generation=generation,
                session=self._plan.session,
            )
        )
        op = self._recorder.invoke(self.process, "subscribe", partition_words(names))
        self._recorder.complete(op, Ok)

    @property
    def generation(self) -> int:
        """The generation of its classic group, or its epoch; NO_GENERATION if it is not known."""
        metadata = self.consumer.consumer_group_metadata()
        if not isinstance(metadata, bytes) or not metadata.startswith(METADATA_TAG):
            return NO_GENERATION
        (generation,) = struct.unpack_from("=i", metadata, len(METADATA_TAG))
        return int(generation)

    @property
    def classic_generation(self) -> int | None:
        """The generation, where it is one of a classic group."""
        generation = self.generation
        return generation if self._plan.protocol == "classic" and generation >= 0 else None

    # --- its operations ----------------------------------------------------------------------------------------------

    def poll(self, count: int, seconds: float) -> dict[str, list[PolledRecord]]:
        """Poll; return the records of partitions that it owned throughout."""
        self._rebalanced = set()
        op = self._recorder.invoke(self.process, "poll", [["poll"]])
        try:
            messages = self.consumer.consume(count, seconds)
        except KafkaException as error:
            self._recorder.complete(op, Info, error=kafka_name(error.args[0].name()))
            return {}
        found: dict[str, list[PolledRecord]] = {}
        errors: set[str] = set()
        for message in messages:
            failed: KafkaError | None = message.error()
            if failed is not None:
                errors.add(kafka_name(failed.name()))
                continue
            offset = message.offset()
            assert offset is not None, "a record has one"
            name = f"{message.topic()}-{message.partition()}"
            found.setdefault(name, []).append([offset, decode_value(message.value())])
        micro: MicroOp = ["poll", dict(found)]
        moved = sorted(self._rebalanced)
        self._recorder.complete(op, Ok, [micro], error=",".join(sorted(errors)) or None, rebalance=moved)
        # Records from before the move may have been processed: they are read again from the new owner's start.
        kept = {name: records for name, records in found.items() if name in self.owned and name not in self._rebalanced}
        for name in found.keys() & self._rebalanced & self.owned.keys():
            self.seek(name, self.owned[name])
        for name, records in kept.items():
            self.owned[name] = records[-1][0] + 1
        return kept

    def seek(self, name: str, offset: int) -> None:
        """Continue from there, if possible."""
        self.owned[name] = offset
        try:
            self.consumer.seek(TopicPartition(*split_partition(name), offset))
        except KafkaException:
            self._recorder.note(f"process {self.process} cannot seek in {name}: it is being moved")

    def commit(self) -> None:
        """Commit where it is in all it owns, and wait for the answer."""
        value: OperationValue = [["offset", self._plan.group_id, name, at] for name, at in self.owned.items()]
        if not value:
            return
        before = self.classic_generation
        offsets = [TopicPartition(*split_partition(name), at) for name, at in self.owned.items()]
        op = self._recorder.invoke(self.process, "commit", value)
        try:
            done = self.consumer.commit(offsets=offsets, asynchronous=False)
            failed = next((each.error for each in done or () if each.error is not None), None)
        except KafkaException as error:
            failed = error.args[0]
        # It may have joined a later generation in the background: then the generation of the request is unknown.
        generation = before if before == self.classic_generation else None
        if failed is None:
            self._recorder.complete(op, Ok, generation=generation)
        else:
            # librdkafka may have tried before, with an answer that was lost.
            self._recorder.complete(op, Info, error=kafka_name(failed.name()), generation=generation)

    def fetch_committed(self, names: list[str]) -> dict[str, int]:
        """Fetch the group's offsets, -1 for none; unavailable ones are omitted."""
        return fetch_committed_offsets(self.consumer, self._plan.group_id, names, self.process, self._recorder)

    def leave(self) -> None:
        """Leave in order."""
        self.consumer.close()

    def die(self) -> None:
        """End without leaving, at once: else heartbeats would continue, and the group would wait for its join."""
        self._recorder.invoke(self.process, "crash", [])
        self._recorder.abandon(self.process)
        # The client references this object by its callbacks, so nothing else may reference the client: it ends with the
        # last reference, which takes as long as its connections.
        corpses = [self.consumer]
        del self.consumer
        threading.Thread(target=corpses.clear, name="chaos-member-end", daemon=True).start()


def fetch_committed_offsets(
    consumer: Any, group: str, names: list[str], process: int, recorder: Recorder, *, final: bool = False
) -> dict[str, int]:
    """Fetch a group's committed offsets by a consumer at read_committed (require-stable); what fails is left out."""
    requested: OperationValue = [["offset", group, name] for name in names]
    op = recorder.invoke(process, "offsets", requested, final=final)
    try:
        rows = consumer.committed([TopicPartition(*split_partition(name)) for name in names], timeout=FETCH_SECONDS)
    except KafkaException as error:
        recorder.complete(op, Fail, [], error=kafka_name(error.args[0].name()))
        return {}
    found = {f"{each.topic}-{each.partition}": max(-1, each.offset) for each in rows if each.error is None}
    recorder.complete(op, Ok, [["offset", group, name, at] for name, at in found.items()])
    return found
