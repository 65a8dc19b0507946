"""Members of groups in the simulator, with the classic protocol and KIP-848's: joins, changes, leaves.

A member works in one task and sends heartbeats in another, as real clients do: so it may be removed during its work
without notice. Its partitions are in the history after it learns of a gain and before it acts on a loss. `accepted` is
the time of its last request that certainly renewed its session without a rebalance: for the session timeout after
that, or the rebalance timeout, it owns its partitions. A classic member's heartbeats do, and the join of a new
generation; a repeated join of its present generation (the group is stable, without a wait) does not, nor a
late sync.
"""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Final, Protocol

from kvorum.chaos.history import Owned
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kvorum.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kvorum.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kvorum.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from sim.client import NoAnswer, SimClient
from sim.coordination import HEARTBEATS_PER_SESSION, SOURCE
from sim.coordinator_link import GROUP, CoordinatorLink
from sim.workload import Recorder

REBALANCE_MS: Final = 2_000
"""Time that a rebalance waits for members: less than a request may take."""
PROTOCOL_TYPE: Final = "consumer"
PROTOCOL: Final = "simulated"


class Member(Protocol):
    """Interface of a membership for its work."""

    process: int
    member_id: str
    generation: int
    classic: bool
    owned: tuple[int, ...]
    stalled: bool
    """It does nothing for a while, and does not beat either: as in a long pause of its process."""

    @property
    def must_rejoin(self) -> bool:
        """Whether it has to renew its membership before it continues."""
        ...

    async def settle(self) -> bool:
        """Maintain its membership; return whether it has an assignment (perhaps an empty one)."""
        ...

    async def leave(self) -> None:
        """Leave in order."""
        ...

    def die(self) -> None:
        """Stop heartbeats without leaving the group."""
        ...


class OwnershipReport:
    """Writes one member's partitions to the history."""

    def __init__(self, group: str, process: int, recorder: Recorder, session_s: float, protocol: str) -> None:
        """It owns nothing yet."""
        self._group = group
        self._process = process
        self._recorder = recorder
        self._session_s = session_s
        self._protocol = protocol

    def tell(self, owned: tuple[int, ...], member_id: str, generation: int, accepted: float | None) -> None:
        """It owns these now."""
        self._recorder.history.write(
            Owned(
                t=self._recorder.now(),
                process=self._process,
                group=self._group,
                partitions=[f"{SOURCE}-{number}" for number in owned],
                protocol=self._protocol,
                member=member_id,
                generation=generation,
                session=self._session_s,
                rebalance=REBALANCE_MS / 1000,
                contact=accepted,
            )
        )


def start_heartbeats(beats: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Start heartbeats; their exception is an error of the run."""
    task = asyncio.get_running_loop().create_task(beats)
    task.add_done_callback(lambda done: None if done.cancelled() else done.result())
    return task


class ClassicMember:
    """A member by JoinGroup, SyncGroup and Heartbeat: eager, so everything is given up before a rebalance."""

    classic = True

    def __init__(
        self, group: str, client: SimClient, recorder: Recorder, process: int, session_ms: int, partitions: int
    ) -> None:
        """`partitions` are all partitions of SOURCE."""
        self.process = process
        self.member_id = ""
        self.generation = -1
        self.owned: tuple[int, ...] = ()
        self._group = group
        self._client = client
        self._recorder = recorder
        self._session_ms = session_ms
        self._partitions = partitions
        self._link = CoordinatorLink(client, GROUP, group)
        self._ownership = OwnershipReport(group, process, recorder, session_ms / 1000, "classic")
        self.stalled = False
        self._beats: asyncio.Task[None] | None = None
        self._is_member = False
        self._membership = ("", -1)
        """The member id and the generation of its last assignment."""
        self._asks_since: float | None = None
        """When it first joined after that: a new generation results from a join sent then or later."""

    @property
    def must_rejoin(self) -> bool:
        """See Member."""
        return not self._is_member

    async def settle(self) -> bool:
        """Join and sync until there is an assignment, or the try failed."""
        if self._is_member:
            return True
        self._give_up(None)
        try:
            await self._join()
        except NoAnswer:
            await self._link.pause()
        return self._is_member

    async def leave(self) -> None:
        """See Member."""
        self.die()
        self._give_up(None)
        request = LeaveGroupRequest(
            group_id=self._group, member_id=self.member_id, members=[MemberIdentity(member_id=self.member_id)]
        )
        with contextlib.suppress(NoAnswer):  # its session will end
            await self._link.ask(request, LeaveGroupResponse)

    def die(self) -> None:
        """See Member."""
        self._is_member = False
        if self._beats is not None:
            self._beats.cancel()

    async def _join(self) -> None:
        """One try. Raises NoAnswer."""
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout=self._session_ms,
            rebalance_timeout=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=b"")],
        )
        if self._asks_since is None:
            self._asks_since = self._recorder.now()
        answer = await self._link.ask(request, JoinGroupResponse)
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return
        if code is not ErrorCode.NONE:
            await self._on_error(code)
            return
        self.member_id, self.generation = answer.member_id, answer.generation_id
        shares: list[SyncGroupRequestAssignment] = []
        if answer.leader == self.member_id:
            members = sorted(each.member_id for each in answer.members)
            shares = [
                SyncGroupRequestAssignment(
                    member_id=member, assignment=bytes(range(place, self._partitions, len(members)))
                )
                for place, member in enumerate(members)
            ]
        synced = await self._link.ask(
            SyncGroupRequest(
                group_id=self._group,
                generation_id=self.generation,
                member_id=self.member_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=PROTOCOL,
                assignments=shares,
            ),
            SyncGroupResponse,
        )
        code = ErrorCode(synced.error_code)
        if code is not ErrorCode.NONE:
            await self._on_error(code)
            return
        self.owned = tuple(bytes(synced.assignment))
        self._is_member = True
        membership = (self.member_id, self.generation)
        accepted = None if membership == self._membership else self._asks_since
        self._membership, self._asks_since = membership, None
        self._ownership.tell(self.owned, self.member_id, self.generation, accepted)
        if self._beats is not None:
            self._beats.cancel()
        self._beats = start_heartbeats(self._beat(self.generation))

    async def _on_error(self, code: ErrorCode) -> None:
        self._link.check_retry(code)
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = ""
        await self._link.pause()

    async def _beat(self, generation: int) -> None:
        """Send heartbeats until a change, or for ever without answers: then the session ends elsewhere, unnoticed."""
        request = HeartbeatRequest(group_id=self._group, generation_id=generation, member_id=self.member_id)
        while self._is_member and self.generation == generation:
            await asyncio.sleep(self._session_ms / 1000 / HEARTBEATS_PER_SESSION)
            if self.stalled:
                continue
            sent = self._recorder.now()
            try:
                answer = await self._link.ask(request, HeartbeatResponse)
            except NoAnswer:
                continue
            code = ErrorCode(answer.error_code)
            if not self._is_member or self.generation != generation:
                return
            if code is ErrorCode.NONE:
                self._ownership.tell(self.owned, self.member_id, generation, sent)
            elif not self._link.check_retry(code):
                if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                    self.member_id = ""
                self._is_member = False
                self._ownership.tell((), self.member_id, generation, None)
                return

    def _give_up(self, accepted: float | None) -> None:
        if self.owned:
            self._ownership.tell((), self.member_id, self.generation, accepted)
        self.owned = ()
