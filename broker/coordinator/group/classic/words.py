"""Types of the classic protocol: states, requesters, and results of operations. Sans-IO."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from kvorum.broker.coordinator.runtime.words import CoordinatorRecord, Outcome
from kvorum.protocol.messages.join_group import JoinGroupResponse
from kvorum.protocol.messages.sync_group import SyncGroupResponse

UNKNOWN_MEMBER_ID: Final = ""
NO_GENERATION: Final = -1
MEMBER_ID_REQUIRED_FROM: Final = 4
"""JoinGroup: from this version on a new member is given its id first, and joins with it (KIP-394)."""
SKIP_ASSIGNMENT_FROM: Final = 9
"""JoinGroup: from this version on a rejoining static leader can skip the assignment (KIP-814)."""
NULLABLE_PROTOCOL_FROM: Final = 7
"""JoinGroup: from this version on an answer may have no protocol name."""
REASON_CHARS_MAX: Final = 255
"""Logged characters of a client's reason (KIP-800)."""


class ClassicState(Enum):
    """State of a classic group (table in group.py), with the names of DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Client(NamedTuple):
    """Identity of a client: client id, address as Kafka prints it ("/10.0.0.1"), request version."""

    client_id: str
    client_host: str
    api_version: int


class OfferedProtocol(NamedTuple):
    """A protocol that a member supports, with its metadata."""

    name: str
    metadata: bytes


JoinAnswer: TypeAlias = Callable[[JoinGroupResponse], None]
"""Answers a JoinGroup, at once or when the group has come together. Called once."""
SyncAnswer: TypeAlias = Callable[[SyncGroupResponse], None]
"""Answers a SyncGroup, at once or when the leader's assignment is committed. Called once."""


class Change(NamedTuple):
    """Records of an operation; most operations have none."""

    records: Sequence[CoordinatorRecord] = ()
    outcome: Outcome | None = None


NOTHING: Final = Change()
