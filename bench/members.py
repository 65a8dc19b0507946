"""Members of classic groups without a client library: they join, take an assignment and send heartbeats.

    find_coordinator (which makes __consumer_offsets)  ->  join (member id, then the group)  ->  sync  ->  heartbeats

A member has its own connection while it joins, since a parked JoinGroup delays later requests; its heartbeats may
use a shared connection.
"""

import asyncio
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.links import Link
from bench.stalled import StalledError
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.find_coordinator import FindCoordinatorRequest
from kvorum.protocol.messages.heartbeat import HeartbeatRequest
from kvorum.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kvorum.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kvorum.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.cluster.wire.raw import request

JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, LEAVE_VERSION, FIND_VERSION = 9, 5, 4, 5, 4
SESSION_MS = 45_000
REBALANCE_MS = 300_000
RETRY_SECONDS = 0.05
DEADLINE_SECONDS = 120.0
RETRIABLE = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REBALANCE_IN_PROGRESS,
)


def subscription(topics: Sequence[str], user_data: bytes) -> bytes:
    """Return a consumer's subscription (ConsumerProtocol, version 0)."""
    named = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + named + struct.pack(">i", len(user_data)) + user_data


def assignment(topic: str, partitions: Sequence[int]) -> bytes:
    """Return a leader's assignment (ConsumerProtocol, version 0)."""
    rows = struct.pack(f">{len(partitions)}i", *partitions)
    return (
        struct.pack(">hih", 0, 1, len(topic)) + topic.encode() + struct.pack(">i", len(partitions)) + rows + b"\xff" * 4
    )


@dataclass(slots=True)
class Member:
    """One member of a group, on the connection that it joins with."""

    group_id: str
    link: Link
    topics: Sequence[str] = ("load",)
    partitions: int = 12
    user_data: bytes = b""
    member_id: str = ""
    generation: int = -1

    async def introduce(self) -> None:
        """Request a member id, and join later. Raises StalledError."""
        assert await self._joined() is None and self.member_id, "a member without an id gets one first"

    async def join(self) -> None:
        """Join the group and apply its leader's assignment; repeat while it rebalances. Raises StalledError."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline:
            joined = await self._joined()
            if joined is not None and await self._synced(joined):
                return
        raise StalledError(f"a member of {self.group_id} cannot join")

    async def _joined(self) -> JoinGroupResponse | None:
        """Send the request once; None: repeat it."""
        protocols = [JoinGroupRequestProtocol(name="range", metadata=subscription(self.topics, self.user_data))]
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout=SESSION_MS,
            rebalance_timeout=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=protocols,
        )
        answer = await self.link.ask(request, JOIN_VERSION)
        assert isinstance(answer, JoinGroupResponse)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return None
        if answer.error_code in RETRIABLE:
            await asyncio.sleep(RETRY_SECONDS)
            return None
        if answer.error_code:
            raise StalledError(f"JoinGroup: {ErrorCode(answer.error_code).name}")
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    async def _synced(self, joined: JoinGroupResponse) -> bool:
        """Bring the assignment, or fetch it; False: the group rebalances again."""
        everybody = [member.member_id for member in joined.members]  # only the leader's response has the members
        shares = [range(place, self.partitions, len(everybody)) for place in range(len(everybody))]
        rows = [
            SyncGroupRequestAssignment(member_id=member_id, assignment=assignment(self.topics[0], share))
            for member_id, share in zip(everybody, shares, strict=True)
        ]
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=rows,
        )
        answer = await self.link.ask(request, SYNC_VERSION)
        assert isinstance(answer, SyncGroupResponse)
        if answer.error_code in RETRIABLE:
            return False
        if answer.error_code:
            raise StalledError(f"SyncGroup: {ErrorCode(answer.error_code).name}")
        return True

    async def leave(self) -> None:
        """Leave the group."""
        rows = [MemberIdentity(member_id=self.member_id)]
        answer = await self.link.ask(LeaveGroupRequest(group_id=self.group_id, members=rows), LEAVE_VERSION)
        assert answer.error_code == ErrorCode.NONE  # type: ignore[attr-defined]

    def heartbeat(self) -> bytes:
        """Return the frame of its heartbeat."""
        return request(self._heartbeat(), HEARTBEAT_VERSION)

    async def is_at_rest(self) -> bool:
        """Send a heartbeat: False if the group rebalances."""
        answer = await self.link.ask(self._heartbeat(), HEARTBEAT_VERSION)
        return answer.error_code == ErrorCode.NONE  # type: ignore[attr-defined,no-any-return]

    def _heartbeat(self) -> HeartbeatRequest:
        return HeartbeatRequest(group_id=self.group_id, generation_id=self.generation, member_id=self.member_id)


async def find_coordinator(link: Link, group_id: str) -> None:
    """Wait until a group has a coordinator; the first request creates __consumer_offsets. Raises StalledError."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        answer = await link.ask(FindCoordinatorRequest(coordinator_keys=[group_id]), FIND_VERSION)
        if answer.coordinators[0].error_code == ErrorCode.NONE:  # type: ignore[attr-defined]
            return
        await asyncio.sleep(RETRY_SECONDS)
    raise StalledError("no coordinator is found")


async def form(members: Sequence[Member]) -> None:
    """Make the members of one group join until all are in one generation."""

    async def stay(member: Member) -> None:
        await member.join()
        while len({each.generation for each in members}) > 1:
            await asyncio.sleep(RETRY_SECONDS)
            if not await member.is_at_rest():
                await member.join()

    await asyncio.gather(*map(stay, members))
