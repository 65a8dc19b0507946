"""State of the manager: image of its three topics. Pure: replays records, answers queries."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvorum.pipelines.connect import records
from kvorum.pipelines.connect.records import Condition, Json, Manager, Record, Status, Target, Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start position of a connector.

    A checkpoint is never edited: each reset or change of offsets is a new run with its own checkpoint. `offsets` are
    for a run that has no checkpoint yet.
    """

    run: int = 0
    offsets: tuple[tuple[Json, Json | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """A configured connector."""

    name: str
    properties: Mapping[str, str]
    target: Target = Target.STARTED
    start: Start = Start()


@dataclass(slots=True)
class State:
    """The image. `replay` takes the records of each topic in their order."""

    properties: dict[str, Mapping[str, str]] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)
    starts: dict[str, Start] = field(default_factory=dict)
    connector_statuses: dict[str, Status] = field(default_factory=dict)
    task_statuses: dict[str, Status] = field(default_factory=dict)
    topics: dict[str, dict[str, int]] = field(default_factory=dict)
    """{connector: {topic: time of its first use, ms}}."""
    offsets: dict[str, dict[str, Json]] = field(default_factory=dict)
    """{connector: {partition as JSON: offset}}."""
    manager: Manager | None = None

    def names(self) -> list[str]:
        """Return the names of all connectors."""
        return sorted(self.properties)

    def get(self, name: str) -> Connector | None:
        """Return a connector, None if it does not exist."""
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
        """Return a connector's last written positions: (partition, offset)."""
        return [(json.loads(key), value) for key, value in sorted(self.offsets.get(name, {}).items())]

    def replay(self, found: Iterable[Record]) -> None:
        """Take records. Those of other kinds (Connect's own) are ignored."""
        for record in found:
            match record.topic:
                case Topic.CONFIGS:
                    self._config(record.key, record.value)
                case Topic.STATUS:
                    self._status(record.key, record.value)
                case Topic.OFFSETS:
                    self._offset(record.key, record.value)

    def _config(self, key: str, value: Json | None) -> None:
        given = value or {}
        if key.startswith(records.CONNECTOR):
            properties = given.get("properties")
            text = {k: str(v) for k, v in properties.items() if v is not None} if isinstance(properties, dict) else None
            _set(self.properties, key.removeprefix(records.CONNECTOR), text)
        elif key.startswith(records.TARGET):
            word = given.get("state.v2") or given.get("state")
            _set(self.targets, key.removeprefix(records.TARGET), Target(word) if word in set(Target) else None)
        elif key.startswith(records.START):
            listed = tuple((each["partition"], each["offset"]) for each in given.get("offsets", ()))
            found = None if value is None else Start(run=int(given.get("run", 0)), offsets=listed)
            _set(self.starts, key.removeprefix(records.START), found)
        elif key == records.MANAGER:
            self.manager = None if value is None else Manager(**value)

    def _status(self, key: str, value: Json | None) -> None:
        if key.startswith(records.CONNECTOR_STATUS):
            _set(self.connector_statuses, key.removeprefix(records.CONNECTOR_STATUS), status(value))
        elif key.startswith(records.TASK_STATUS):
            name, _, number = key.removeprefix(records.TASK_STATUS).rpartition("-")
            if number == str(records.TASK):
                _set(self.task_statuses, name, status(value))
        elif key.startswith(records.TOPIC_STATUS):
            topic, _, name = key.removeprefix(records.TOPIC_STATUS).partition(records.TOPIC_SEPARATOR)
            found = value.get("topic") if value else None
            seen = found.get("discoverTimestamp") if isinstance(found, dict) else None
            _set(self.topics.setdefault(name, {}), topic, seen if isinstance(seen, int) else None)

    def _offset(self, key: str, value: Json | None) -> None:
        try:
            name, partition = json.loads(key)
        except ValueError:
            return
        _set(self.offsets.setdefault(str(name), {}), records.compact(partition), value)


def _set(table: dict[str, Any], key: str, value: Any) -> None:
    """Set or, with None, delete."""
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def status(value: Json | None) -> Status | None:
    """Return a record's status; None if it is deleted or of an unknown state."""
    if value is None or value.get("state") not in set(Condition):
        return None
    return Status(
        state=Condition(value["state"]),
        trace=str(value.get("trace") or "") or None,
        worker_id=str(value.get("worker_id", "")),
        generation=int(value.get("generation", 0)),
    )
