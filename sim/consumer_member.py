"""A member with KIP-848's protocol: the coordinator assigns its partitions by heartbeats.

It stops owning revoked partitions at once (it begins no work with them), and reports the revocation in a
heartbeat once its work has ended. A fenced member joins again with epoch 0.
"""

import asyncio
import contextlib
from typing import Final

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from kvorum.protocol.uuids import Uuid
from sim.client import NoAnswer, SimClient
from sim.coordination import HEARTBEATS_PER_SESSION, SOURCE
from sim.coordinator_link import GROUP, CoordinatorLink
from sim.member import REBALANCE_MS, OwnershipReport, start_heartbeats
from sim.workload import Recorder

JOIN: Final = 0
LEAVE: Final = -1
NOT_JOINED: Final = -1


class ConsumerMember:
    """A member that uses the consumer protocol; a member.Member."""

    classic = False

    def __init__(
        self, group: str, client: SimClient, recorder: Recorder, process: int, session_ms: int, partitions: int
    ) -> None:
        """`session_ms` is the group's, by the brokers' configuration."""
        self.process = process
        self.member_id = str(Uuid(client.rng.randbytes(16)))
        self.generation = NOT_JOINED
        self.owned: tuple[int, ...] = ()
        self._group = group
        self._client = client
        self._recorder = recorder
        self._session_ms = session_ms
        self._link = CoordinatorLink(client, GROUP, group)
        self._ownership = OwnershipReport(group, process, recorder, session_ms / 1000, "consumer")
        self._beats: asyncio.Task[None] | None = None
        self._topic_id: Uuid | None = None
        self._requested: tuple[int, ...] | None = None
        """Partitions that it is assigned and does not own yet: its work has to end before."""
        self.stalled = False
        self._alive = True
        self._unheard = False
        """An answer was lost, with its content: the next heartbeat is a full one."""

    @property
    def must_rejoin(self) -> bool:
        """See Member."""
        return self.generation == NOT_JOINED or self._requested is not None

    async def settle(self) -> bool:
        """Join, or apply the assignment."""
        if not self._alive:
            return False
        try:
            if self.generation == NOT_JOINED:
                await self._say(JOIN, ())
            elif self._requested is not None:
                self._carry_out()
                await self._say(self.generation, self.owned)
        except NoAnswer:
            await self._link.pause()
        if self._beats is None and self._alive:
            self._beats = start_heartbeats(self._beat())
        return self.generation != NOT_JOINED and self._requested is None

    async def leave(self) -> None:
        """See Member."""
        self.die()
        self._own(())
        if self.generation != NOT_JOINED:
            self.generation = NOT_JOINED
            with contextlib.suppress(NoAnswer):  # its session will end
                await self._link.ask(self._request(LEAVE, None), ConsumerGroupHeartbeatResponse)

    def die(self) -> None:
        """See Member."""
        self._alive = False
        if self._beats is not None:
            self._beats.cancel()

    def _request(self, epoch: int, owned: tuple[int, ...] | None) -> ConsumerGroupHeartbeatRequest:
        """Send a full heartbeat when it joins or acts, otherwise only its epoch."""
        rows = None
        if owned is not None:
            there = self._topic_id is not None and owned
            rows = [RequestTopicPartitions(topic_id=self._topic_id, partitions=list(owned))] if there else []  # type: ignore[arg-type]  # it is there
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self.member_id,
            member_epoch=epoch,
            rebalance_timeout=REBALANCE_MS if owned is not None else -1,
            subscribed_topic_names=[SOURCE] if owned is not None else None,
            topic_partitions=rows,
        )

    async def _say(self, epoch: int, owned: tuple[int, ...] | None) -> None:
        """Send one heartbeat and apply its response. Raises NoAnswer."""
        sent, said = self._recorder.now(), self.owned if self._unheard and owned is None else owned
        self._unheard = True
        answer = await self._link.ask(self._request(epoch, said), ConsumerGroupHeartbeatResponse)
        self._unheard = False
        if not self._alive:
            return
        code = ErrorCode(answer.error_code)
        if code is not ErrorCode.NONE:
            if not self._link.check_retry(code):
                self.generation, self._requested = NOT_JOINED, None
                self._own(())
            await self._link.pause()
            return
        if answer.member_id:
            self.member_id = answer.member_id
        self.generation = answer.member_epoch
        if answer.assignment is not None:
            rows = answer.assignment.topic_partitions
            if rows:
                self._topic_id = rows[0].topic_id
            requested = tuple(sorted(number for row in rows for number in row.partitions))
            if requested != self.owned:
                self._requested = requested
        kept = self.owned if self._requested is None else tuple(each for each in self.owned if each in self._requested)
        # During a revocation the session for the other partitions continues.
        self._ownership.tell(kept, self.member_id, self.generation, sent)

    def _carry_out(self) -> None:
        """The work has ended: own the assigned partitions."""
        assert self._requested is not None
        requested, self._requested = self._requested, None
        self._own(requested)

    def _own(self, owned: tuple[int, ...]) -> None:
        if owned != self.owned:
            self.owned = owned
            self._ownership.tell(owned, self.member_id, self.generation, None)

    async def _beat(self) -> None:
        while self._alive:
            await asyncio.sleep(self._session_ms / 1000 / HEARTBEATS_PER_SESSION)
            if self.generation == NOT_JOINED or not self._alive or self.stalled:
                continue
            try:
                await self._say(self.generation, None)
            except NoAnswer:
                continue
