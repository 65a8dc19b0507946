"""State of the manager: image of the topics connect-configs, connect-offsets and connect-status, in Connect's format.

    connect-configs   connector-NAME             {"properties": {...}}                              null: deleted
                      target-state-NAME          {"state": "PAUSED", "state.v2": "STOPPED"}         (KIP-875)
                      commit-NAME                {"tasks": 1}
                      kvorum-start-NAME          {"run": 2, "offsets": [...]}                       see Start
                      kvorum-manager             {"id", "worker_id", "checkpoints"}                 see Manager
    connect-offsets   ["NAME", {partition}]      {offset}                                           null: reset
    connect-status    status-connector-NAME      {"state", "trace", "worker_id", "generation"}
                      status-task-NAME-0         the same
                      status-topic-TOPIC:connector-NAME   {"topic": {"name", "connector", "task", "discoverTimestamp"}}

All JSON, as Connect's internal converters write it. Connect ignores the keys that begin with kvorum-. Pure.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

Json = dict[str, Any]
Offsets = Sequence[tuple[Json, Json | None]]
"""(partition, offset) each; None: from the beginning."""

CONNECTOR: Final = "connector-"
TARGET: Final = "target-state-"
COMMIT: Final = "commit-"
START: Final = "kvorum-start-"
MANAGER: Final = "kvorum-manager"
CONNECTOR_STATUS: Final = "status-connector-"
TASK_STATUS: Final = "status-task-"
TOPIC_STATUS: Final = "status-topic-"
TASK: Final = 0
"""The number of a connector's only task. Spark divides its work."""


class Topic(StrEnum):
    """One of the three topics; the value is the last part of its name."""

    CONFIGS = "configs"
    OFFSETS = "offsets"
    STATUS = "status"


class Target(StrEnum):
    """Target state of a connector."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class Condition(StrEnum):
    """State of a connector or a task, in Connect's terms."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a topic; value None deletes the key."""

    topic: Topic
    key: str
    value: Json | None = None

    def value_bytes(self) -> bytes | None:
        """Return the value as it is written."""
        return None if self.value is None else compact(self.value).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """State of a connector or a task, with its worker and trace. Two that differ in generation only are equal."""

    state: Condition
    trace: str | None = None
    worker_id: str
    generation: int = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    """The manager that wrote the topics last."""

    id: str
    """Unique per process."""
    worker_id: str
    checkpoints: str
    """Location of the checkpoints that configurations do not name: --checkpoints, or the id of its state folder."""


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


def compact(value: object) -> str:
    """Return JSON without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def connector(name: str, properties: Mapping[str, str]) -> Record:
    """Return the record of a connector's configuration."""
    return Record(Topic.CONFIGS, CONNECTOR + name, {"properties": dict(properties)})


def target(name: str, wanted: Target) -> Record:
    """Return the record of a connector's target state; `state` is for workers that do not know STOPPED."""
    old = Target.PAUSED if wanted is Target.STOPPED else wanted
    return Record(Topic.CONFIGS, TARGET + name, {"state": old, "state.v2": wanted})


def commit(name: str, tasks: int) -> Record:
    """Return the record of the number of a connector's tasks."""
    return Record(Topic.CONFIGS, COMMIT + name, {"tasks": tasks})


def start(name: str, run: int, offsets: Offsets) -> Record:
    """Return the record of where a connector starts when it has no checkpoint of this run."""
    listed = [{"partition": partition, "offset": offset} for partition, offset in offsets]
    return Record(Topic.CONFIGS, START + name, {"run": run, "offsets": listed})


def manager(found: Manager) -> Record:
    """Return the record of the manager that writes."""
    return Record(Topic.CONFIGS, MANAGER, asdict(found))


def offset(name: str, partition: Json, value: Json | None) -> Record:
    """Return the record of a connector's offset; None deletes it."""
    return Record(Topic.OFFSETS, compact([name, partition]), value)


def connector_status(name: str, status: Status | None) -> Record:
    """Return the record of a connector's state; None deletes it."""
    return Record(Topic.STATUS, CONNECTOR_STATUS + name, None if status is None else asdict(status))


def task_status(name: str, status: Status | None) -> Record:
    """Return the record of the state of a connector's task; None deletes it."""
    return Record(Topic.STATUS, f"{TASK_STATUS}{name}-{TASK}", None if status is None else asdict(status))


def topic_status(name: str, topic: str, discovered_ms: int | None) -> Record:
    """Return the record of a topic that a connector uses; None deletes it."""
    found = {"name": topic, "connector": name, "task": TASK, "discoverTimestamp": discovered_ms}
    return Record(
        Topic.STATUS, f"{TOPIC_STATUS}{topic}:{CONNECTOR}{name}", None if discovered_ms is None else {"topic": found}
    )


def parse(topic: Topic, key: bytes | None, value: bytes | None) -> Record | None:
    """Return a record as it was read; None if its key is no text or its value no JSON object."""
    try:
        found = None if value is None else json.loads(value)
        text = (key or b"").decode()
    except ValueError:
        return None
    return Record(topic, text, found) if text and isinstance(found, dict | None) else None


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
        if key.startswith(CONNECTOR):
            properties = given.get("properties")
            text = {k: str(v) for k, v in properties.items() if v is not None} if isinstance(properties, dict) else None
            _set(self.properties, key.removeprefix(CONNECTOR), text)
        elif key.startswith(TARGET):
            word = given.get("state.v2") or given.get("state")
            _set(self.targets, key.removeprefix(TARGET), Target(word) if word in set(Target) else None)
        elif key.startswith(START):
            listed = tuple((each["partition"], each["offset"]) for each in given.get("offsets", ()))
            found = None if value is None else Start(run=int(given.get("run", 0)), offsets=listed)
            _set(self.starts, key.removeprefix(START), found)
        elif key == MANAGER:
            self.manager = None if value is None else Manager(**value)

    def _status(self, key: str, value: Json | None) -> None:
        found = value or {}
        if key.startswith(TOPIC_STATUS):
            topic, _, name = key.removeprefix(TOPIC_STATUS).partition(f":{CONNECTOR}")
            entry = found.get("topic")
            seen = entry.get("discoverTimestamp") if isinstance(entry, dict) else None
            _set(self.topics.setdefault(name, {}), topic, seen if isinstance(seen, int) else None)
            return
        status = None
        if found.get("state") in set(Condition):
            status = Status(
                state=Condition(found["state"]),
                trace=str(found.get("trace") or "") or None,
                worker_id=str(found.get("worker_id", "")),
                generation=int(found.get("generation", 0)),
            )
        if key.startswith(CONNECTOR_STATUS):
            _set(self.connector_statuses, key.removeprefix(CONNECTOR_STATUS), status)
        elif key.startswith(TASK_STATUS):
            name, _, number = key.removeprefix(TASK_STATUS).rpartition("-")
            if number == str(TASK):
                _set(self.task_statuses, name, status)

    def _offset(self, key: str, value: Json | None) -> None:
        try:
            name, partition = json.loads(key)
        except ValueError:
            return
        _set(self.offsets.setdefault(str(name), {}), compact(partition), value)


def _set(table: dict[str, Any], key: str, value: Any) -> None:
    """Set or, with None, delete."""
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
