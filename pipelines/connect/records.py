"""The records of connect-configs, connect-offsets and connect-status, in Connect's own format.

    connect-configs   connector-NAME             {"properties": {...}}                              null: deleted
                      target-state-NAME          {"state": "PAUSED", "state.v2": "STOPPED"}         (KIP-875)
                      commit-NAME                {"tasks": 1}
                      kvorum-start-NAME          {"run": 2, "offsets": [...]}                       see state.Start
                      kvorum-manager             {"id", "worker_id", "checkpoints"}                 see state.Manager
    connect-offsets   ["NAME", {partition}]      {offset}                                           null: reset
    connect-status    status-connector-NAME      {"state", "trace", "worker_id", "generation"}
                      status-task-NAME-0         the same
                      status-topic-TOPIC:connector-NAME   {"topic": {"name", "connector", "task", "discoverTimestamp"}}

All JSON, as Connect's internal converters write it. Connect ignores the keys that begin with kvorum-. In the functions
below None instead of a value deletes the key.
"""

import json
from collections.abc import Mapping, Sequence
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
TOPIC_SEPARATOR: Final = ":connector-"
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
    value: Json | None

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


def compact(value: object) -> str:
    """Return JSON without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def connector(name: str, properties: Mapping[str, str] | None) -> Record:
    """Return a connector's configuration."""
    return Record(Topic.CONFIGS, CONNECTOR + name, None if properties is None else {"properties": dict(properties)})


def target(name: str, wanted: Target | None) -> Record:
    """Return a connector's target state; `state` is for workers that do not know STOPPED."""
    old = Target.PAUSED if wanted is Target.STOPPED else wanted
    return Record(Topic.CONFIGS, TARGET + name, None if wanted is None else {"state": old, "state.v2": wanted})


def commit(name: str, tasks: int | None) -> Record:
    """Return the number of a connector's tasks."""
    return Record(Topic.CONFIGS, COMMIT + name, None if tasks is None else {"tasks": tasks})


def start(name: str, run: int, offsets: Offsets) -> Record:
    """Return where a connector starts when it has no checkpoint of this run."""
    listed = [{"partition": partition, "offset": offset} for partition, offset in offsets]
    return Record(Topic.CONFIGS, START + name, {"run": run, "offsets": listed})


def manager(found: Manager) -> Record:
    """Return the manager that writes."""
    return Record(Topic.CONFIGS, MANAGER, asdict(found))


def offset(name: str, partition: Json, value: Json | None) -> Record:
    """Return a connector's offset."""
    return Record(Topic.OFFSETS, compact([name, partition]), value)


def connector_status(name: str, status: Status | None) -> Record:
    """Return a connector's state."""
    return Record(Topic.STATUS, CONNECTOR_STATUS + name, None if status is None else asdict(status))


def task_status(name: str, status: Status | None) -> Record:
    """Return the state of a connector's task."""
    return Record(Topic.STATUS, f"{TASK_STATUS}{name}-{TASK}", None if status is None else asdict(status))


def topic_status(name: str, topic: str, discovered_ms: int | None) -> Record:
    """Return that a connector uses a topic."""
    found = {"name": topic, "connector": name, "task": TASK, "discoverTimestamp": discovered_ms}
    key = f"{TOPIC_STATUS}{topic}{TOPIC_SEPARATOR}{name}"
    return Record(Topic.STATUS, key, None if discovered_ms is None else {"topic": found})


def parse(topic: Topic, key: bytes | None, value: bytes | None) -> Record | None:
    """Return a record as it was read; None if its key is no text or its value no JSON object."""
    try:
        found = None if value is None else json.loads(value)
        text = (key or b"").decode()
    except ValueError:
        return None
    return Record(topic, text, found) if text and isinstance(found, dict | None) else None
