"""Maintenance and decommission of brokers, as the admin HTTP API shows and takes them."""

from typing import Annotated

from pydantic import BaseModel, Field

from kvorum.admin.models import Strict

THROTTLE_MAX = 2**63 - 1


class Duty(BaseModel):
    """What is asked of a broker, and how far that is."""

    broker: int
    asked: str = Field(description="active, maintenance or decommissioned", examples=["maintenance"])
    state: str = Field(
        description="active; draining, then maintenance; returning; moving, then decommissioned", examples=["draining"]
    )
    done: bool = Field(description="Nothing is left to be done")
    message: str = Field(description="What that means, in a sentence")
    leaders: int = Field(description="Partitions it leads")
    replicas: int = Field(description="Partitions it has a replica of")
    left: int = Field(description="Leaderships or replicas that are still to move")
    moving: int = Field(description="Replicas that are on their way to other brokers")
    kept: list[str] = Field(description="The first hundred partitions in maintenance that nobody else in sync can lead")
    throttle_bytes_per_second: int | None = Field(None, description="Of a decommission; null: none was asked for")


class Decommission(Strict):
    """How to decommission."""

    throttle_bytes_per_second: Annotated[int, Field(ge=1, le=THROTTLE_MAX)] | None = Field(
        None, description="What each broker moves at the most"
    )
    validate_only: bool = Field(False, description="Only say whether it could be")
