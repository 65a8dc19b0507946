"""Brokers, and their administrative state (client/reassignments/broker_admin_state)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kvorum.protocol.messages.describe_cluster import DescribeClusterBroker
from kvorum.protocol.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A registered broker; of a client that is connected to controllers: a controller."""

    id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool
    """Always False on clusters that do not list fenced brokers (before Kafka 4.0)."""


class RequestedState(StrEnum):
    """Requested administrative state: the values of kvorum.broker.state."""

    ACTIVE = "active"
    MAINTENANCE = "maintenance"
    DECOMMISSIONED = "decommissioned"


class AdminState(StrEnum):
    """Progress of an administrative state (table in client/reassignments/broker_admin_state)."""

    ACTIVE = "active"
    DRAINING = "draining"
    MAINTENANCE = "maintenance"
    RETURNING = "returning"
    MOVING = "moving"
    DECOMMISSIONED = "decommissioned"


FINISHED: Final = (AdminState.ACTIVE, AdminState.MAINTENANCE, AdminState.DECOMMISSIONED)
"""States without remaining work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    """A broker with its requested state and progress. `kept`: partitions without another in-sync replica."""

    broker: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool
    requested: RequestedState
    state: AdminState
    leaders: int
    """Number of partitions that it leads."""
    replicas: int
    """Number of partitions with a replica on it."""
    left: int
    """Leaderships or replicas still to move."""
    moving: int
    """Replicas that move to other brokers."""
    kept: tuple[TopicPartition, ...]
    throttle_bytes_per_second: int | None

    @property
    def done(self) -> bool:
        """Return whether the requested state is reached."""
        return self.state in FINISHED

    @property
    def message(self) -> str:
        """Describe the state, and the possible next action, in a sentence."""
        match self.state:
            case AdminState.ACTIVE:
                return "It operates normally."
            case AdminState.DRAINING:
                return f"{self.left} partition leader(s) still to move to other in-sync replicas."
            case AdminState.MAINTENANCE if self.kept:
                named = ", ".join(map(str, self.kept[:5])) + (", ..." if len(self.kept) > 5 else "")
                return f"It leads only partitions without another in-sync replica: {named}."
            case AdminState.MAINTENANCE:
                return "It leads no partition. It can be stopped."
            case AdminState.RETURNING:
                return f"{self.left} partition leader(s) still to return, each when its replica is in sync."
            case AdminState.MOVING:
                return f"{self.left} replica(s) left, {self.moving} of them moving to other brokers."
            case AdminState.DECOMMISSIONED:
                return "It has no replicas. Stop it, then unregister it."


def broker_value(row: DescribeClusterBroker) -> Broker:
    """Return a broker of a DescribeCluster response."""
    return Broker(id=row.broker_id, host=row.host, port=row.port, rack=row.rack, is_fenced=row.is_fenced)
