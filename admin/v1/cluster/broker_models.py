"""A broker as the HTTP API shows it."""

from pydantic import BaseModel, Field


class RegisteredLogDir(BaseModel):
    """A registered log directory; GET /v1/brokers/{broker}/log-dirs has its path."""

    id: str
    online: bool
    cordoned: bool = Field(description="New replicas are not placed in it")


class Broker(BaseModel):
    """A registered broker: its state in the cluster and in its process."""

    id: int
    host: str
    port: int
    rack: str | None
    fenced: bool
    leaders: int = Field(description="Number of partitions it leads")
    replicas: int = Field(description="Number of partitions with a replica on it")
    epoch: int | None = Field(description="Epoch of this registration; null: the metadata log is not available")
    incarnation_id: str | None = Field(
        description="Changes at each start of the broker; null: the metadata log is not available"
    )
    in_controlled_shutdown: bool | None = Field(
        description="Leaders are moving away before the stop; for a fenced broker: it stopped this way; null: unknown"
    )
    log_dirs: list[RegisteredLogDir] | None = Field(description="null: the metadata log is not available")
    registration_error: str | None = Field(
        description="Why the metadata log is not available", examples=["METADATA_TOO_LARGE"]
    )
    version: str | None = Field(description="Version of Kvorum; null: the process is not available")
    started_ms: int | None = Field(description="null: the process is not available")
    uptime_ms: int | None = Field(description="null: the process is not available")
    process_error: str | None = Field(
        description="Name of the error if the process is not available", examples=["NO_METRICS_LISTENER"]
    )
    process_message: str | None = Field(description="Why the process is not available")
