"""Models of the admin HTTP API for maintenance and decommission of brokers."""

from typing import Annotated

from pydantic import BaseModel, Field

from kvorum.admin.v1.models import Strict

THROTTLE_MAX = 2**63 - 1


class BrokerAdminState(BaseModel):
    """Administrative state of a broker, with its progress."""

    broker: int
    requested: str = Field(
        description="Requested state: active, maintenance or decommissioned", examples=["maintenance"]
    )
    state: str = Field(
        description="Present state: active; draining, then maintenance; returning; moving, then decommissioned",
        examples=["draining"],
    )
    done: bool = Field(description="The requested state is reached")
    message: str = Field(description="Description of the state")
    leaders: int = Field(description="Number of partitions it leads")
    replicas: int = Field(description="Number of partitions with a replica on it")
    left: int = Field(description="Leaderships or replicas still to move")
    moving: int = Field(description="Replicas that move to other brokers")
    kept: list[str] = Field(description="In maintenance: the first hundred partitions without another in-sync replica")
    throttle_bytes_per_second: int | None = Field(None, description="Throttle of a decommission; null: none")


class Decommission(Strict):
    """Options of a decommission."""

    throttle_bytes_per_second: Annotated[int, Field(ge=1, le=THROTTLE_MAX)] | None = Field(
        None, description="Maximum rate per broker"
    )
    validate_only: bool = Field(False, description="Validate only")
