"""What the cluster's processes tell of themselves on their own pages, and what is told of it here."""

from typing import Any

from pydantic import BaseModel, Field


class NodeProcess(BaseModel):
    """A process of the cluster, as it tells of itself."""

    node_id: int
    role: str = Field(examples=["broker", "controller"])
    cluster_id: str | None = Field(description="null: it is only starting, and does not know it yet")
    version: str = Field(description="Kvorum's")
    python: str = Field(examples=["3.12.1"])
    pid: int
    started_ms: int
    uptime_ms: int


class ClientConnection(BaseModel):
    """A connection that a broker has; null: the broker does not count it, or the client did not say it."""

    id: str
    listener: str = Field(examples=["PLAINTEXT"])
    address: str = Field(examples=["127.0.0.1:40112"])
    client_id: str | None
    software_name: str | None
    software_version: str | None
    principal: str = Field(examples=["User:ANONYMOUS"])
    since_ms: int
    idle_ms: int
    requests: int = Field(description="That came over it")
    bytes_in: int | None
    bytes_out: int | None


class ClientConnections(BaseModel):
    """Connections of a broker."""

    total: int = Field(description="That it has; more than are listed where `limit` is less")
    connections: list[ClientConnection]


class LogLine(BaseModel):
    """A line of a process's log."""

    time: str = Field(examples=["2026-03-01T10:15:30.123Z"])
    level: str = Field(examples=["INFO"])
    room: str = Field(examples=["broker"], description="Which part of the process wrote it")
    message: str
    facts: dict[str, Any]


class RecentLog(BaseModel):
    """The last lines of a process's log, the newest last."""

    lines: list[LogLine]
    dropped: int = Field(description="Older lines that the process does not have any more")


class Stopping(BaseModel):
    """A process that ends."""

    stopping: bool


class SnapshotWritten(BaseModel):
    """A snapshot of the metadata."""

    end_offset: int = Field(description="Of the first record that is not in it")
    epoch: int
    bytes: int
    took_ms: int
    written: bool = Field(True, description="false: it was there already, and nothing has come since")


class ControllerSnapshot(SnapshotWritten):
    """A snapshot of the metadata, and whose."""

    controller: int
