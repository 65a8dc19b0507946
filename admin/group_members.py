"""Members of groups in one shape, whichever protocol they speak. Sans-IO.

What a classic member says of itself is opaque to the broker; of consumers it is Kafka's ConsumerProtocol: a version
int16, then for a subscription the topics, for an assignment topics with partitions. Later versions append fields.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kvorum.protocol.messages import consumer_group_describe, describe_groups

CONSUMER_PROTOCOL: Final = "consumer"
INT16: Final = 2
INT32: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member; `assignment` is {topic: partitions}."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None = None
    """Of the consumer protocol."""
    protocol: str = "classic"
    """Which protocol it speaks itself: a consumer group may have members of both."""
    rack: str | None = None
    topics: Sequence[str] = ()
    pattern: str | None = None
    assignment: Mapping[str, Sequence[int]] = field(default_factory=dict)
    target: Mapping[str, Sequence[int]] | None = None
    """What it is to have once others have given it up; None in the classic protocol, which has no such thing."""


def consumer_member(row: consumer_group_describe.Member) -> Member:
    """Return a member of a consumer group."""
    return Member(
        member_id=row.member_id,
        instance_id=row.instance_id,
        client_id=row.client_id,
        host=row.client_host,
        epoch=row.member_epoch,
        protocol="classic" if row.member_type == 0 else "consumer",
        rack=row.rack_id,
        topics=row.subscribed_topic_names,
        pattern=row.subscribed_topic_regex or None,
        assignment={each.topic_name: sorted(each.partitions) for each in row.assignment.topic_partitions},
        target={each.topic_name: sorted(each.partitions) for each in row.target_assignment.topic_partitions},
    )


def classic_member(row: describe_groups.DescribedGroupMember, protocol_type: str) -> Member:
    """Return a member of a classic group; topics and partitions of consumers only, others use formats of their own."""
    is_consumer = protocol_type == CONSUMER_PROTOCOL
    return Member(
        member_id=row.member_id,
        instance_id=row.group_instance_id,
        client_id=row.client_id,
        host=row.client_host,
        topics=subscribed(row.member_metadata) if is_consumer else (),
        assignment=assigned(row.member_assignment) if is_consumer else {},
    )


class Bytes:
    """A cursor over bytes that somebody else wrote. Raises ValueError where they end early."""

    def __init__(self, data: bytes) -> None:
        """Begin behind the version."""
        self._data = data
        self._place = INT16

    def _take(self, count: int) -> bytes:
        end = self._place + count
        if count < 0 or end > len(self._data):
            raise ValueError("a field ends behind the bytes")
        taken, self._place = self._data[self._place : end], end
        return taken

    def int32(self) -> int:
        """Return the next int32."""
        return int.from_bytes(self._take(INT32), "big", signed=True)

    def count(self) -> int:
        """Return the next count of an array, no more than the bytes can hold."""
        count = self.int32()
        if not 0 <= count <= len(self._data):
            raise ValueError(f"{count} elements cannot be there")
        return count

    def text(self) -> str:
        """Return the next string."""
        return self._take(int.from_bytes(self._take(INT16), "big", signed=True)).decode(errors="replace")


def subscribed(metadata: bytes) -> list[str]:
    """Return the topics of a ConsumerProtocolSubscription; none of bytes that are none."""
    try:
        read = Bytes(metadata)
        return [read.text() for _ in range(read.count())] if metadata else []
    except ValueError:
        return []


def assigned(assignment: bytes) -> dict[str, list[int]]:
    """Return the partitions of a ConsumerProtocolAssignment; none of bytes that are none."""
    found: dict[str, list[int]] = {}
    try:
        read = Bytes(assignment)
        for _ in range(read.count() if assignment else 0):
            topic = read.text()
            found[topic] = sorted(read.int32() for _ in range(read.count()))
    except ValueError:
        return {}
    return found
