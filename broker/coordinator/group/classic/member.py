"""One member of a classic group. Sans-IO. Source: Kafka's ClassicGroupMember."""

from collections.abc import Collection

from kvorum.broker.coordinator.group.classic.words import JoinAnswer, OfferedProtocol, SyncAnswer
from kvorum.broker.coordinator.records.classic import MemberMetadata
from kvorum.protocol.messages.describe_groups import DescribedGroupMember
from kvorum.protocol.messages.join_group import JoinGroupResponseMember


class ClassicMember:
    """A member: identity, protocols, assignment, and its parked request. Timeouts in ms.

    Changed only by its group, which counts the parked joins.
    """

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: tuple[OfferedProtocol, ...],
        assignment: bytes = b"",
    ) -> None:
        """Wait for nothing yet."""
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = assignment
        self.awaiting_join: JoinAnswer | None = None
        self.awaiting_sync: SyncAnswer | None = None
        self.is_new = False

    def renamed(self, member_id: str) -> "ClassicMember":
        """Return the same member under a new id; nothing of it is parked."""
        return ClassicMember(
            member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            protocol_type=self.protocol_type,
            protocols=self.protocols,
            assignment=self.assignment,
        )

    @property
    def is_static(self) -> bool:
        """Whether it has an instance id, and so outlives its process (KIP-345)."""
        return self.instance_id is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Whether an expired session is ignored: the client cannot send while its request is parked here.

        That of a new member is not ignored: it may have died without another sign.
        """
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return its metadata for a protocol, empty if it does not support it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def vote(self, candidates: Collection[str]) -> str:
        """Return its preferred protocol among those that all members support."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise AssertionError("candidates are what every member speaks")

    def joined(self, protocol_name: str | None) -> JoinGroupResponseMember:
        """Return the member for the leader's join response."""
        return JoinGroupResponseMember(
            member_id=self.member_id, group_instance_id=self.instance_id, metadata=self.metadata(protocol_name)
        )

    def described(self, protocol_name: str | None) -> DescribedGroupMember:
        """Return the member for DescribeGroups; without a protocol its metadata is empty."""
        return DescribedGroupMember(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            member_metadata=b"" if protocol_name is None else self.metadata(protocol_name),
            member_assignment=self.assignment,
        )

    def recorded(self, protocol_name: str | None, assignment: bytes) -> MemberMetadata:
        """Return it as the group's record has it."""
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol_name),
            assignment=assignment,
        )


def member_of(row: MemberMetadata, protocol_type: str, protocol_name: str | None) -> ClassicMember:
    """Return a member as a record has it: of the protocols it spoke, the chosen one is known.

    The oldest records have no rebalance timeout; the session's serves as both.
    """
    return ClassicMember(
        row.member_id,
        instance_id=row.group_instance_id,
        client_id=row.client_id,
        client_host=row.client_host,
        rebalance_timeout_ms=row.rebalance_timeout if row.rebalance_timeout > 0 else row.session_timeout,
        session_timeout_ms=row.session_timeout,
        protocol_type=protocol_type,
        protocols=(OfferedProtocol(protocol_name or "", row.subscription),),
        assignment=row.assignment,
    )
