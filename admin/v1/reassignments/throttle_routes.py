"""Throttles of reassignments over HTTP: show them, set them for current reassignments, remove them (KIP-73).

A throttle is two things: rates of brokers, and replicas of topics that the rates apply to. Either may be left over from
a completed move, so all brokers and topics are searched.
"""

from pydantic import BaseModel, Field, model_validator

from kvorum.admin.http.operations import Call, NoBody, Operation
from kvorum.admin.v1.models import Strict
from kvorum.admin.v1.reassignments.reassignment_models import Rate
from kvorum.client.namespaces.reassignments import Reassignments
from kvorum.client.partitions.log_dir_moves import LogDirMoves
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.protocol.errors import ErrorCode, KafkaError


class BrokerThrottle(BaseModel):
    """Maximum rates of a broker in bytes per second; null: not throttled."""

    broker: int
    leader_rate: int | None = Field(description="Rate at which followers fetch from its throttled replicas")
    follower_rate: int | None = Field(description="Rate at which its throttled replicas fetch")
    log_dirs_rate: int | None = Field(description="Rate of moves between its log directories")


class TopicThrottle(BaseModel):
    """Throttled replicas of a topic, as PARTITION:BROKER,... or *; empty: none."""

    topic: str
    leaders: str
    followers: str


class Throttle(BaseModel):
    """All replication throttles."""

    brokers: list[BrokerThrottle]
    topics: list[TopicThrottle]
    unreachable: list[int] = Field(description="Brokers that did not respond")


class NewThrottle(Strict):
    """Maximum rates of current reassignments, per broker."""

    bytes_per_second: Rate | None = Field(None, description="Maximum rate between brokers; null: unchanged")
    log_dirs_bytes_per_second: Rate | None = Field(None, description="Maximum rate between log directories of a broker")

    @model_validator(mode="after")
    def require_rate(self) -> "NewThrottle":
        """Require at least one rate."""
        if self.bytes_per_second is None and self.log_dirs_bytes_per_second is None:
            raise ValueError("give bytes_per_second, log_dirs_bytes_per_second, or both")
        return self


async def get_throttle(call: Call[NoBody]) -> Throttle:
    """Return the throttles of reassignments: rates of brokers, and their replicas."""
    return await throttles(call.cluster)


async def throttles(cluster: ClusterClient) -> Throttle:
    """Return the throttles that are set. Raises KafkaError, Unreachable."""
    return Throttle.model_validate(await Reassignments(cluster).throttles(), from_attributes=True)


async def set_throttle(call: Call[NewThrottle]) -> Throttle:
    """Throttle current reassignments, or change the throttle. A verify removes it once all is completed."""
    body, found = call.body, Reassignments(call.cluster)
    if body.bytes_per_second is not None:
        await found.throttle(body.bytes_per_second)
    if body.log_dirs_bytes_per_second is not None:
        brokers = {each.broker for each in await LogDirMoves(call.cluster).list_moves()}
        if not brokers:
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "no move between log directories in progress")
        await found.moves.throttle(brokers, body.log_dirs_bytes_per_second)
    return await throttles(call.cluster)


async def delete_throttle(call: Call[NoBody]) -> Throttle:
    """Remove all throttles of reassignments, even during one. The response has the former ones."""
    before = await throttles(call.cluster)
    await Reassignments(call.cluster).remove_throttles(each.topic for each in before.topics)
    return before


def throttle_state(throttle: Throttle) -> object:
    """Return the part of the throttles that a change could overwrite: all of it."""
    return throttle.model_dump(exclude={"unreachable"})


THROTTLE = "/v1/reassignments/throttle"
GET_THROTTLE = Operation.get(
    THROTTLE, "Get the throttles of reassignments", get_throttle, Throttle, state=throttle_state
)
OPERATIONS = [
    GET_THROTTLE,
    Operation(
        method="PUT",
        path=THROTTLE,
        summary="Throttle reassignments",
        handle=set_throttle,
        body=NewThrottle,
        answer=Throttle,
        guard=GET_THROTTLE,
    ),
    Operation(
        method="DELETE",
        path=THROTTLE,
        summary="Remove all throttles of reassignments",
        handle=delete_throttle,
        answer=Throttle,
        guard=GET_THROTTLE,
    ),
]
