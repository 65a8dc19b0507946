"""Events of a cluster from the records of its metadata log: elections, ISRs, brokers, topics. Sans-IO.

The log is read over the wire as any topic (`__cluster_metadata`): each value is an object of JSON with the `type` of
the record and the fields of Kafka's metadata records. Other kinds of records are skipped; a change in several batches
(BeginTransaction) becomes events when it is complete, or not at all (KIP-868).

A reader that starts in the middle of the log does not know the earlier state: `before` is null then. Queried state of
the cluster (Known) fills in everything without a record since: it is unchanged.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

CHANGE_RECORDS_MAX: Final = 100_000
"""Limit of one incomplete change."""
NOBODY: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataEvent:
    """One thing that happened, at an offset of the metadata log."""

    type: str
    offset: int
    timestamp_ms: int
    topic: str | None = None
    topic_id: str | None = None
    partition: int | None = None
    broker: int | None = None
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class PartitionState:
    """Known state of a partition; None for unknown values."""

    leader: int | None = None
    leader_epoch: int | None = None
    isr: list[int] | None = None


@dataclass(frozen=True, slots=True)
class ClusterState:
    """State of the cluster at an offset of the log."""

    offset: int
    names: Mapping[str, str]
    partitions: Mapping[tuple[str, int], PartitionState]
    fenced: Mapping[int, bool]


@dataclass(slots=True)
class MetadataEventBuilder:
    """Known state of the cluster, updated by records."""

    names: dict[str, str] = field(default_factory=dict)
    """{topic id: name}."""
    partitions: dict[tuple[str, int], PartitionState] = field(default_factory=dict)
    """{(topic id, partition): state}."""
    fenced: dict[int, bool] = field(default_factory=dict)
    """{broker id: fenced}."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """{topic id: name} of topics that may or may not be there yet."""
    _change: list[tuple[int, int, Mapping[str, Any]]] | None = None
    _transaction: int = 0
    """First offset of that change."""

    def learn(self, known: ClusterState) -> None:
        """Add the queried state of everything without a record so far; it is at least as new as the offset."""
        self.names = {**known.names, **self.names}
        self.fenced = {**known.fenced, **self.fenced}
        for place, found in known.partitions.items():
            state = self.partitions.setdefault(place, PartitionState())
            if state.leader in (None, found.leader) and state.leader_epoch is None:
                state.leader, state.leader_epoch = found.leader, found.leader_epoch
            if state.isr is None:
                state.isr = found.isr

    def complete_until(self, offset: int) -> int:
        """Return the offset below which all events are complete; an incomplete change is not."""
        return offset if self._change is None else self._transaction

    def take(self, offset: int, timestamp_ms: int, record: Mapping[str, Any]) -> list[MetadataEvent]:
        """Return the events of a record; those of a transaction come at its end. Raises ValueError: bad record."""
        kind = record.get("type")
        if kind == "BeginTransaction":
            self._change, self._transaction = [], offset
            return []
        if kind == "AbortTransaction":
            self._change = None
            return []
        if kind == "EndTransaction":
            change, self._change = self._change or [], None
            return [each for row in change for each in self._events_of(*row)]
        if self._change is not None:
            if len(self._change) >= CHANGE_RECORDS_MAX:
                raise ValueError(f"a metadata change has more than {CHANGE_RECORDS_MAX} records")
            self._change.append((offset, timestamp_ms, record))
            return []
        return self._events_of(offset, timestamp_ms, record)

    def _events_of(self, offset: int, timestamp_ms: int, record: Mapping[str, Any]) -> list[MetadataEvent]:
        build = BUILDERS.get(str(record.get("type")))
        try:
            rows = [] if build is None else build(self, record)
        except (KeyError, TypeError) as error:
            raise ValueError(f"a {record.get('type')} without {error}") from error
        return [MetadataEvent(offset=offset, timestamp_ms=timestamp_ms, **row) for row in rows]

    def _topic(self, record: Mapping[str, Any]) -> list[dict[str, Any]]:
        topic_id, name = record["topic_id"], record["name"]
        if topic_id in self.names:
            return []
        self.names[topic_id] = name
        return [{"type": "topic_created", "topic": name, "topic_id": topic_id}]

    def _remove_topic(self, record: Mapping[str, Any]) -> list[dict[str, Any]]:
        topic_id = record["topic_id"]
        name = self.names.pop(topic_id, self.labels.get(topic_id))
        for place in [place for place in self.partitions if place[0] == topic_id]:
            del self.partitions[place]
        return [{"type": "topic_deleted", "topic": name, "topic_id": topic_id}]

    def _partition(self, record: Mapping[str, Any]) -> list[dict[str, Any]]:
        place = (record["topic_id"], record["partition_id"])
        if place in self.partitions:
            return []
        leader, isr, epoch = record["leader"], list(record["isr"]), record.get("leader_epoch", 0)
        self.partitions[place] = PartitionState(leader, epoch, isr)
        after = {"leader": leader, "isr": isr, "replicas": list(record["replicas"])}
        return [{"type": "partition_created", **self._where(place), "after": after}]

    def _partition_change(self, record: Mapping[str, Any]) -> list[dict[str, Any]]:
        place = (record["topic_id"], record["partition_id"])
        state = self.partitions.setdefault(place, PartitionState())
        rows: list[dict[str, Any]] = []
        if "leader" in record:
            epoch = None if state.leader_epoch is None else state.leader_epoch + 1
            if record["leader"] != state.leader:
                kind = "leader_elected" if record["leader"] != NOBODY else "leader_lost"
                before = {"leader": state.leader, "leader_epoch": state.leader_epoch}
                after = {"leader": record["leader"], "leader_epoch": epoch}
                rows.append({"type": kind, **self._where(place), "before": before, "after": after})
            state.leader, state.leader_epoch = record["leader"], epoch
        if "isr" in record:
            isr = list(record["isr"])
            if state.isr is None or sorted(isr) != sorted(state.isr):
                rows.append(
                    {
                        "type": "isr_changed",
                        **self._where(place),
                        "before": {"isr": state.isr},
                        "after": {"isr": isr},
                    }
                )
            state.isr = isr
        return rows + self._reassignment_events(place, record)

    def _reassignment_events(self, place: tuple[str, int], record: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the event of a reassignment that began, changed, or ended; only `replicas`: their order changed."""
        parts = ("replicas", "adding_replicas", "removing_replicas")
        after = {name: list(record[name]) for name in parts if name in record}
        return [{"type": "reassignment_changed", **self._where(place), "after": after}] if after else []

    def _where(self, place: tuple[str, int]) -> dict[str, Any]:
        name = self.names.get(place[0], self.labels.get(place[0]))
        return {"topic": name, "topic_id": place[0], "partition": place[1]}

    def _register(self, record: Mapping[str, Any]) -> list[dict[str, Any]]:
        broker = record["broker_id"]
        rows: list[dict[str, Any]] = [{"type": "broker_registered", "broker": broker}]
        fenced = bool(record.get("fenced", True))
        if fenced and broker not in self.fenced:  # it comes so: that is no news
            self.fenced[broker] = True
            return rows
        return rows + self._fencing_events(broker, fenced)

    def _unregister(self, record: Mapping[str, Any]) -> list[dict[str, Any]]:
        self.fenced.pop(record["broker_id"], None)
        return [{"type": "broker_unregistered", "broker": record["broker_id"]}]

    def _registration_change(self, record: Mapping[str, Any]) -> list[dict[str, Any]]:
        broker, fenced = record["broker_id"], record.get("fenced")
        rows: list[dict[str, Any]] = []
        if record.get("in_controlled_shutdown"):
            rows.append({"type": "broker_shutting_down", "broker": broker})
        return rows if fenced is None else rows + self._fencing_events(broker, bool(fenced))

    def _fencing_events(self, broker: int, fenced: bool) -> list[dict[str, Any]]:
        before, self.fenced[broker] = self.fenced.get(broker), fenced
        if before == fenced:
            return []
        return [{"type": "broker_fenced" if fenced else "broker_unfenced", "broker": broker}]

    def _config(self, record: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the event of a changed config, without its value: it may be a secret."""
        after = {"resource_type": record["resource_type"], "name": record["name"], "set": record["value"] is not None}
        is_topic = record["resource_type"] == TOPIC_RESOURCE
        name = record["resource_name"]
        return [
            {
                "type": "config_changed",
                "topic": name if is_topic else None,
                "after": after if is_topic else {**after, "resource": name},
            }
        ]

    def _quota(self, record: Mapping[str, Any]) -> list[dict[str, Any]]:
        entity = {part["entity_type"]: part["entity_name"] for part in record["entity"]}
        after = {"entity": entity, "key": record["key"], "set": not record.get("remove", False)}
        return [{"type": "quota_changed", "after": after}]

    def _feature(self, record: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [{"type": "feature_changed", "after": {"name": record["name"], "level": record["level"]}}]


TOPIC_RESOURCE: Final = 2
KINDS: Final = (
    *("leader_elected", "leader_lost", "isr_changed", "topic_created", "topic_deleted", "partition_created"),
    *("broker_registered", "broker_fenced", "broker_unfenced", "broker_shutting_down", "broker_unregistered"),
    *("config_changed", "quota_changed", "feature_changed", "reassignment_changed"),
)
"""Kinds of events."""
BUILDERS: Final = {
    "Topic": MetadataEventBuilder._topic,
    "RemoveTopic": MetadataEventBuilder._remove_topic,
    "Partition": MetadataEventBuilder._partition,
    "PartitionChange": MetadataEventBuilder._partition_change,
    "RegisterBroker": MetadataEventBuilder._register,
    "UnregisterBroker": MetadataEventBuilder._unregister,
    "BrokerRegistrationChange": MetadataEventBuilder._registration_change,
    "Config": MetadataEventBuilder._config,
    "ClientQuota": MetadataEventBuilder._quota,
    "Feature": MetadataEventBuilder._feature,
}
