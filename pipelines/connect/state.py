"""State of the manager: image of the topics connect-configs, connect-offsets and connect-status. Pure.

The records are Connect's, as its internal converters write them: docs/pipelines/connect.md lists them. Connect ignores
the keys that begin with kvorum-.

Positions have Connect's shape, (partition, offset) each. They are in the checkpoint of a pipeline, where they are read,
and never edited: see Start.

    topics    {"kafka_topic": "orders", "kafka_partition": 0}    {"kafka_offset": 17}     as Connect's sinks
    a file    {"filename": "/data/in.txt"}                       {"position": 6}          as Connect's FileStreamSource
    others    {"source": "NAME", "number": 0}                    the offset in Spark's checkpoint, e.g. {"logOffset": 3}
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

from kvorum.pipelines.connect.errors import bad_request
from kvorum.pipelines.run.progress import topic_offsets

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
TOPIC, PARTITION, OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"
FILENAME, POSITION = "filename", "position"
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


@dataclass(slots=True)
class Connector:
    """A connector. Statuses and positions may be stored for one that does not exist."""

    name: str
    exists: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    target: Target = Target.STARTED
    start: Start = Start()
    status: Status | None = None
    task: Status | None = None
    """The status of its task; None: it has none."""
    topics: dict[str, int] = field(default_factory=dict)
    """{topic: time of its first use, ms}."""
    offsets: dict[str, Json] = field(default_factory=dict)
    """{partition as JSON: offset}: the last written positions."""

    @property
    def is_stopped(self) -> bool:
        """Return whether it was stopped, or had finished."""
        return self.status is not None and self.status.state is Condition.STOPPED

    def positions(self) -> list[tuple[Json, Json]]:
        """Return the last written positions: (partition, offset)."""
        return [(json.loads(key), value) for key, value in sorted(self.offsets.items())]


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

    connectors: dict[str, Connector] = field(default_factory=dict)
    """Of all names that records have, see `get`."""
    manager: Manager | None = None

    def names(self) -> list[str]:
        """Return the names of all connectors."""
        return sorted(name for name, each in self.connectors.items() if each.exists)

    def get(self, name: str) -> Connector | None:
        """Return a connector, None if it does not exist."""
        found = self.connectors.get(name)
        return found if found is not None and found.exists else None

    def generation(self) -> int:
        """Return the highest generation that wrote a status."""
        statuses = (status for each in self.connectors.values() for status in (each.status, each.task))
        return max((status.generation for status in statuses if status is not None), default=0)

    def replay(self, found: Iterable[Record]) -> None:
        """Take records. Those of other kinds (Connect's own) are ignored."""
        for record in found:
            match record.topic:
                case Topic.CONFIGS:
                    self._config(record.key, record.value)
                case Topic.STATUS:
                    self._status(record.key, record.value or {})
                case Topic.OFFSETS:
                    self._offset(record.key, record.value)

    def _of(self, name: str) -> Connector:
        return self.connectors.setdefault(name, Connector(name))

    def _config(self, key: str, value: Json | None) -> None:
        given = value or {}
        if key.startswith(CONNECTOR):
            connector, properties = self._of(key.removeprefix(CONNECTOR)), given.get("properties")
            connector.exists = isinstance(properties, dict)
            connector.properties = {k: str(v) for k, v in (properties or {}).items() if v is not None}
        elif key.startswith(TARGET):
            word = given.get("state.v2") or given.get("state")
            wanted = Target(word) if word in set(Target) else Target.STARTED
            self._of(key.removeprefix(TARGET)).target = wanted
        elif key.startswith(START):
            listed = tuple((each["partition"], each["offset"]) for each in given.get("offsets", ()))
            self._of(key.removeprefix(START)).start = Start(run=int(given.get("run", 0)), offsets=listed)
        elif key == MANAGER:
            self.manager = None if value is None else Manager(**value)

    def _status(self, key: str, value: Json) -> None:
        if key.startswith(TOPIC_STATUS):
            topic, _, name = key.removeprefix(TOPIC_STATUS).partition(f":{CONNECTOR}")
            entry = value.get("topic")
            seen = entry.get("discoverTimestamp") if isinstance(entry, dict) else None
            _set(self._of(name).topics, topic, seen if isinstance(seen, int) else None)
            return
        status = None
        if value.get("state") in set(Condition):
            status = Status(
                state=Condition(value["state"]),
                trace=str(value.get("trace") or "") or None,
                worker_id=str(value.get("worker_id", "")),
                generation=int(value.get("generation", 0)),
            )
        if key.startswith(CONNECTOR_STATUS):
            self._of(key.removeprefix(CONNECTOR_STATUS)).status = status
        elif key.startswith(TASK_STATUS):
            name, _, number = key.removeprefix(TASK_STATUS).rpartition("-")
            if number == str(TASK):
                self._of(name).task = status

    def _offset(self, key: str, value: Json | None) -> None:
        try:
            name, partition = json.loads(key)
        except ValueError:
            return
        _set(self._of(str(name)).offsets, compact(partition), value)


def _set(table: dict[str, Any], key: str, value: Any) -> None:
    """Set or, with None, delete."""
    table.pop(key, None)
    if value is not None:
        table[key] = value


def positions_of(answer: Mapping[str, Any], name: str) -> list[tuple[Json, Json]]:
    """Return the positions in a worker's answer: {"sources": [offset...]}."""
    found: list[tuple[Json, Json]] = []
    for number, source in enumerate(answer.get("sources") or ()):
        by_partition = topic_offsets(source) if source else None
        if by_partition:
            listed = sorted((topic, int(partition), offset) for (topic, partition), offset in by_partition.items())
            found += [({TOPIC: topic, PARTITION: number}, {OFFSET: offset}) for topic, number, offset in listed]
        elif isinstance(source, dict) and source.keys() >= {FILENAME, POSITION}:
            found.append(({FILENAME: source[FILENAME]}, {POSITION: source[POSITION]}))
        elif source is not None and source != {}:
            found.append(
                ({"source": name, "number": number}, source if isinstance(source, dict) else {"offset": source})
            )
    return found


def merged_positions(before: Offsets, wanted: Offsets) -> list[tuple[Json, Json | None]]:
    """Return the positions with those in their place that were set by hand."""
    table = {compact(partition): (partition, offset) for partition, offset in (*before, *wanted)}
    return [table[key] for key in sorted(table)]


def requested_positions(body: Any, type_: Literal["sink", "file", "source"]) -> Offsets:
    """Return the positions of a request: {"offsets": [{"partition", "offset"}]}. Raises ConnectError.

    Of sources, only a file's position can be set.
    """
    listed = body.get("offsets") if isinstance(body, dict) else None
    if not isinstance(listed, list) or not listed:
        raise bad_request("Partitions / offsets need to be provided for an alter offsets request")
    if type_ == "source":
        raise bad_request("source offsets of this connector are in its checkpoint: they can be reset, but not altered")
    return [_of_file(each) if type_ == "file" else _of_topic(each) for each in listed]


def _of_file(each: Any) -> tuple[Json, Json | None]:
    """Return a position as FileStreamSourceConnector accepts it. Connect answers 500 to the others."""
    partition, offset = (each.get("partition"), each.get("offset")) if isinstance(each, dict) else (None, {})
    if not isinstance(partition, dict):
        raise bad_request("Partition objects cannot be null")
    if offset is None:
        return partition, None
    if not isinstance(offset, dict) or POSITION not in offset:
        raise bad_request(f"Offset objects should either be null or contain the key '{POSITION}'")
    if type(offset[POSITION]) is not int:
        raise bad_request(f"The value for the '{POSITION}' key in the offset is expected to be a Long value")
    if offset[POSITION] < 0:
        raise bad_request(f"The value for the '{POSITION}' key in the offset should be a non-negative value")
    if FILENAME not in partition:
        raise bad_request(f"Partition objects should contain the key '{FILENAME}'")
    return {FILENAME: str(partition[FILENAME])}, {POSITION: offset[POSITION]}


def _of_topic(each: Any) -> tuple[Json, Json | None]:
    partition = each.get("partition") if isinstance(each, dict) else None
    if not isinstance(partition, dict) or set(partition) != {TOPIC, PARTITION}:
        raise bad_request(
            f"The partition for a sink connector offset must contain the keys '{TOPIC}' and '{PARTITION}'"
        )
    number, offset = _integer(partition[PARTITION], "Kafka partition", "Partition"), each.get("offset")
    place: Json = {TOPIC: str(partition[TOPIC]), PARTITION: number}
    if offset is None:
        return place, None
    if not isinstance(offset, dict) or set(offset) != {OFFSET}:
        raise bad_request(f"The offset for a sink connector should either be null or contain the key '{OFFSET}'")
    return place, {OFFSET: _integer(offset[OFFSET], "Kafka offset", "Offset")}


def _integer(value: Any, what: str, word: str) -> int:
    """Return a number that may have been written as text. Raises ConnectError."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    if number < 0 or isinstance(value, bool):
        raise bad_request(
            f"Failed to parse the following {what} value in the provided offsets: '{value}'. "
            f"{word} values for sink connectors need to be integers."
        )
    return number


def topics_of(properties: Mapping[str, str], found: Offsets) -> set[str]:
    """Return the topics a connector uses: those it reads, or the one it writes to."""
    read = {str(partition[TOPIC]) for partition, _ in found if TOPIC in partition}
    named = properties.get("topic") or properties.get("sink.topic")
    return read or ({named} if named else set())
