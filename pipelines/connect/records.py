"""The records of connect-configs, connect-offsets and connect-status, in Connect's own format.

    connect-configs   connector-NAME             {"properties": {...}}                              null: deleted
                      target-state-NAME          {"state": "PAUSED", "state.v2": "STOPPED"}         (KIP-875)
                      commit-NAME                {"tasks": 1}
                      kvorum-start-NAME          {"run": 2, "offsets": [...]}                       ours, see State
                      kvorum-leader              {"folder": "...", "worker_id": "host:port"}        ours: whose workers
    connect-offsets   ["NAME", {partition}]      {offset}                                           null: forgotten
    connect-status    status-connector-NAME      {"state", "trace", "worker_id", "generation"}
                      status-task-NAME-0         the same
                      status-topic-TOPIC:connector-NAME   {"topic": {"name", "connector", "task", "discoverTimestamp"}}

All JSON, as Connect's internal converters write it. Connect steps over the keys that it does not know.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

Json = dict[str, Any]
Offsets = Sequence[tuple[Json, Json | None]]
"""(partition, offset) each; None: from the beginning."""

CONNECTOR: Final = "connector-"
TARGET: Final = "target-state-"
COMMIT: Final = "commit-"
START: Final = "kvorum-start-"
LEADER: Final = "kvorum-leader"
CONNECTOR_STATUS: Final = "status-connector-"
TASK_STATUS: Final = "status-task-"
TOPIC_STATUS: Final = "status-topic-"
TOPIC_SEPARATOR: Final = ":connector-"
TASK: Final = 0
"""A pipeline is one task: one process, whose work Spark spreads. It is numbered as Connect numbers the first."""


class Topic(StrEnum):
    """Which of the three; the value is the name's last word."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of a topic; value None deletes the key."""

    topic: Topic
    key: str
    value: Json | None

    def key_bytes(self) -> bytes:
        """Return the key as it is written."""
        return self.key.encode()

    def value_bytes(self) -> bytes | None:
        """Return the value as it is written."""
        return None if self.value is None else compact(self.value).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """State of a connector or a task, with its worker and trace."""

    state: Condition
    worker_id: str
    generation: int
    trace: str | None = None

    def as_value(self) -> Json:
        """Return the record's value."""
        fields = {"state": self.state.value, "trace": self.trace, "worker_id": self.worker_id}
        return {**fields, "generation": self.generation}

    def same(self, other: "Status | None") -> bool:
        """Tell whether the other one says the same, whenever it was said."""
        return other is not None and (self.state, self.trace, self.worker_id) == (
            other.state,
            other.trace,
            other.worker_id,
        )


def compact(value: object) -> str:
    """Return JSON without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def connector(name: str, properties: Mapping[str, str] | None) -> Record:
    """Return a connector's configuration; None: it is deleted."""
    value = None if properties is None else {"properties": dict(properties)}
    return Record(topic=Topic.CONFIGS, key=f"{CONNECTOR}{name}", value=value)


def target(name: str, wanted: Target | None) -> Record:
    """Return a connector's target state; `state` is for workers that do not know STOPPED."""
    if wanted is None:
        value = None
    else:
        value = {"state": "PAUSED" if wanted is Target.STOPPED else wanted.value, "state.v2": wanted.value}
    return Record(topic=Topic.CONFIGS, key=f"{TARGET}{name}", value=value)


def commit(name: str, tasks: int | None) -> Record:
    """Return how many tasks a connector has."""
    value = None if tasks is None else {"tasks": tasks}
    return Record(topic=Topic.CONFIGS, key=f"{COMMIT}{name}", value=value)


def start(name: str, run: int, offsets: Offsets) -> Record:
    """Return from where a connector starts when it has no checkpoint of this run."""
    listed = [{"partition": partition, "offset": offset} for partition, offset in offsets]
    return Record(topic=Topic.CONFIGS, key=f"{START}{name}", value={"run": run, "offsets": listed})


def leader(folder: str | None, worker_id: str = "") -> Record:
    """Return in whose folder the workers are; None: there are none any more."""
    value = None if folder is None else {"folder": folder, "worker_id": worker_id}
    return Record(topic=Topic.CONFIGS, key=LEADER, value=value)


def offset(name: str, partition: Json, value: Json | None) -> Record:
    """Return a position of a connector."""
    return Record(topic=Topic.OFFSETS, key=compact([name, partition]), value=value)


def connector_status(name: str, status: Status | None) -> Record:
    """Return what a connector is."""
    value = None if status is None else status.as_value()
    return Record(topic=Topic.STATUS, key=f"{CONNECTOR_STATUS}{name}", value=value)


def task_status(name: str, status: Status | None) -> Record:
    """Return what a connector's task is."""
    value = None if status is None else status.as_value()
    return Record(topic=Topic.STATUS, key=f"{TASK_STATUS}{name}-{TASK}", value=value)


def topic_status(name: str, topic: str, discovered_ms: int | None) -> Record:
    """Return that a connector was seen to use a topic; None: forget it."""
    value: Json | None = None
    if discovered_ms is not None:
        value = {"topic": {"name": topic, "connector": name, "task": TASK, "discoverTimestamp": discovered_ms}}
    return Record(topic=Topic.STATUS, key=f"{TOPIC_STATUS}{topic}{TOPIC_SEPARATOR}{name}", value=value)


def parse(topic: Topic, key: bytes | None, value: bytes | None) -> Record | None:
    """Return a record as it was read; None when it is none of ours (its key no text, its value no JSON object)."""
    try:
        found = None if value is None else json.loads(value)
        text = (key or b"").decode()
    except ValueError:
        return None
    if not text or not (found is None or isinstance(found, dict)):
        return None
    return Record(topic=topic, key=text, value=found)
