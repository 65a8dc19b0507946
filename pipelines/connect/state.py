"""State of the manager: image of its three topics. Pure: replays records, answers queries."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvorum.pipelines.connect import records
from kvorum.pipelines.connect.records import Condition, Json, Record, Status, Target, Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a connector's positions begin.

    Each reset or change of offsets by hand is a new run with a checkpoint of its own: what a checkpoint says is never
    edited. `offsets` hold for a run that has no checkpoint yet.
    """

    run: int = 0
    offsets: tuple[tuple[Json, Json | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """One that is configured."""

    name: str
    properties: Mapping[str, str]
    target: Target = Target.STARTED
    start: Start = Start()


@dataclass(slots=True)
class State:
    """The image. `replay` takes the records in the order of their topics, each topic by itself."""

    properties: dict[str, Mapping[str, str]] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)
    starts: dict[str, Start] = field(default_factory=dict)
    connector_statuses: dict[str, Status] = field(default_factory=dict)
    task_statuses: dict[str, Status] = field(default_factory=dict)
    topics: dict[str, dict[str, int]] = field(default_factory=dict)
    """{connector: {topic: when it was seen first, ms}}."""
    offsets: dict[str, dict[str, Json]] = field(default_factory=dict)
    """{connector: {partition as JSON: offset}}."""
    leader: str | None = None
    """The folder in which the workers are."""
    unknown: int = 0
    """Records of no kind that is known here."""

    def names(self) -> list[str]:
        """Return the connectors there are."""
        return sorted(self.properties)

    def get(self, name: str) -> Connector | None:
        """Return a connector, None when it is not there."""
        found = self.properties.get(name)
        if found is None:
            return None
        wanted, start = self.targets.get(name, Target.STARTED), self.starts.get(name, Start())
        return Connector(name=name, properties=found, target=wanted, start=start)

    def generation(self) -> int:
        """Return the highest generation that wrote a status."""
        statuses = [*self.connector_statuses.values(), *self.task_statuses.values()]
        return max((status.generation for status in statuses), default=0)

    def positions(self, name: str) -> list[tuple[Json, Json]]:
        """Return the positions of a connector as they are known: (partition, offset)."""
        return [(json.loads(key), value) for key, value in sorted(self.offsets.get(name, {}).items())]

    def replay(self, found: Iterable[Record]) -> None:
        """Take records."""
        for record in found:
            match record.topic:
                case Topic.CONFIGS:
                    self._config(record)
                case Topic.STATUS:
                    self._status(record)
                case Topic.OFFSETS:
                    self._offset(record)

    def _config(self, record: Record) -> None:
        key, value = record.key, record.value
        if key.startswith(records.CONNECTOR):
            properties = value.get("properties") if value else None
            text = {k: str(v) for k, v in properties.items() if v is not None} if isinstance(properties, dict) else None
            _set(self.properties, key.removeprefix(records.CONNECTOR), text)
        elif key.startswith(records.TARGET):
            given = (value or {}).get("state.v2") or (value or {}).get("state")
            _set(self.targets, key.removeprefix(records.TARGET), Target(given) if given in set(Target) else None)
        elif key.startswith(records.START):
            _set(self.starts, key.removeprefix(records.START), _start(value))
        elif key == records.LEADER:
            self.leader = None if value is None else str(value.get("folder", ""))
        else:
            self.unknown += 1

    def _status(self, record: Record) -> None:
        key, value = record.key, record.value
        if key.startswith(records.CONNECTOR_STATUS):
            _set(self.connector_statuses, key.removeprefix(records.CONNECTOR_STATUS), status(value))
        elif key.startswith(records.TASK_STATUS):
            name, _, number = key.removeprefix(records.TASK_STATUS).rpartition("-")
            if number == str(records.TASK):
                _set(self.task_statuses, name, status(value))
        elif key.startswith(records.TOPIC_STATUS):
            topic, _, name = key.removeprefix(records.TOPIC_STATUS).partition(records.TOPIC_SEPARATOR)
            told = value.get("topic") if value else None
            seen = told.get("discoverTimestamp") if isinstance(told, dict) else None
            _set(self.topics.setdefault(name, {}), topic, seen if isinstance(seen, int) else None)
        else:
            self.unknown += 1

    def _offset(self, record: Record) -> None:
        try:
            name, partition = json.loads(record.key)
        except ValueError:
            self.unknown += 1
            return
        key = records.compact(partition)
        _set(self.offsets.setdefault(str(name), {}), key, record.value)


def _set(table: dict[str, Any], key: str, value: Any) -> None:
    """Set or, with None, delete."""
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _start(value: Json | None) -> Start | None:
    if value is None:
        return None
    listed = tuple((each["partition"], each["offset"]) for each in value.get("offsets", ()))
    return Start(run=int(value.get("run", 0)), offsets=listed)


def status(value: Json | None) -> Status | None:
    """Return a status as a record has it; None when it is deleted or of a kind that is not known."""
    if value is None or value.get("state") not in set(Condition):
        return None
    trace = value.get("trace")
    return Status(
        state=Condition(value["state"]),
        trace=str(trace) if trace else None,
        worker_id=str(value.get("worker_id", "")),
        generation=int(value.get("generation", 0)),
    )
