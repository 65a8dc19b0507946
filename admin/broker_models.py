"""A broker as the HTTP API shows it."""

from pydantic import BaseModel, Field


class RegisteredLogDir(BaseModel):
    """A log directory that a broker registered; GET /v1/brokers/{broker}/log-dirs tells where it is."""

    id: str
    online: bool
    cordoned: bool = Field(description="It gets no new replicas")


class Broker(BaseModel):
    """A registered broker: what the cluster knows of it, and what its process tells of itself."""

    id: int
    host: str
    port: int
    rack: str | None
    fenced: bool
    leaders: int = Field(description="Partitions it leads")
    replicas: int = Field(description="Partitions it has a replica of")
    epoch: int | None = Field(description="Of this registration; null: nobody tells the metadata log")
    incarnation_id: str | None = Field(description="Another one each time that the broker starts; null: as above")
    in_controlled_shutdown: bool | None = Field(
        description="Its leaders are moving away, and it ends then; of a fenced one: that it ended so; null: as above"
    )
    log_dirs: list[RegisteredLogDir] | None = Field(description="null: as above")
    registration_error: str | None = Field(description="Why nobody tells", examples=["METADATA_TOO_LARGE"])
    version: str | None = Field(description="Kvorum's; null: the process cannot be asked")
    started_ms: int | None = Field(description="null: as above")
    uptime_ms: int | None = Field(description="null: as above")
    process_error: str | None = Field(description="Why it cannot be asked", examples=["NO_METRICS_LISTENER"])
    process_message: str | None = Field(description="The same, for people")
