"""Models of the processes' own pages, and of their exposition by this API."""

from typing import Any

from pydantic import BaseModel, Field


class NodeProcess(BaseModel):
    """State of a process of the cluster."""

    node_id: int
    role: str = Field(examples=["broker", "controller"])
    cluster_id: str | None = Field(description="null: not known yet, while the process starts")
    version: str = Field(description="Kvorum's")
    python: str = Field(examples=["3.12.1"])
    pid: int
    started_ms: int
    uptime_ms: int


class ClientConnection(BaseModel):
    """A connection of a broker; null: not counted by the broker, or not sent by the client."""

    id: str
    listener: str = Field(examples=["PLAINTEXT"])
    address: str = Field(examples=["127.0.0.1:40112"])
    client_id: str | None
    software_name: str | None
    software_version: str | None
    principal: str = Field(examples=["User:ANONYMOUS"])
    since_ms: int
    idle_ms: int
    requests: int = Field(description="Number of requests received")
    bytes_in: int | None
    bytes_out: int | None


class ClientConnections(BaseModel):
    """Connections of a broker."""

    total: int = Field(description="Total number of connections; more than listed if `limit` is lower")
    connections: list[ClientConnection]


class LogLine(BaseModel):
    """A line of a process's log."""

    time: str = Field(examples=["2026-03-01T10:15:30.123Z"])
    level: str = Field(examples=["INFO"])
    room: str = Field(examples=["broker"], description="Component of the process")
    message: str
    facts: dict[str, Any]


class RecentLog(BaseModel):
    """The last lines of a process's log, newest last."""

    lines: list[LogLine]
    dropped: int = Field(description="Number of older lines that are no longer in memory")


class Stopping(BaseModel):
    """A process that is stopping."""

    stopping: bool


class SnapshotWritten(BaseModel):
    """A snapshot of the metadata."""

    end_offset: int = Field(description="Offset of the first record after the snapshot")
    epoch: int
    bytes: int
    took_ms: int
    written: bool = Field(True, description="false: the snapshot existed already and no record was added since")


class ControllerSnapshot(SnapshotWritten):
    """A metadata snapshot and its controller."""

    controller: int
