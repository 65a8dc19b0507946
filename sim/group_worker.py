"""Members of simulated groups: watchers commit their reads, workers process them exactly once.

Both begin at the group's committed offset (OffsetFetch, require-stable) and read at read_committed. A worker sends
its output together with its offset in one transaction, under its own transactional id and with its member id (KIP-447):
so a zombie's transaction is rejected, and a successor waits until the zombie's open transaction has ended.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from kvorum.chaos.history import Fail, Info, Invoke, Ok, OperationValue, PolledRecord
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kvorum.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from sim.client import NoAnswer, SimClient
from sim.committed_reads import fetch_committed
from sim.consumer_member import ConsumerMember
from sim.coordination import SINK, SOURCE
from sim.coordinator_link import GROUP, CoordinatorLink
from sim.member import ClassicMember, Member
from sim.plan import Coordination
from sim.transactor import Draft, Membership, Transactor
from sim.workload import RETRY_S, Recorder

BY_NAME: Final = 9
"""The newest OffsetCommit and OffsetFetch that name topics; later ones have ids."""
DIES: Final = 0.5
"""Share of members that end without leaving the group."""
COMMITS: Final = 0.5
"""Share of a watcher's polls with a commit."""
STALLS: Final = 0.05
"""Share of rounds with a stall, perhaps longer than the session: the member is then a zombie."""
NOT_COMMITTED: Final = -1


class GroupWorker:
    """One client of a group, over all its lives; `makes`: a worker, else a watcher."""

    def __init__(
        self, group: str, number: int, client: SimClient, recorder: Recorder, drawn: Coordination, *, makes: bool
    ) -> None:
        """Start without a request."""
        self._group = group
        self._name = f"{group}-{number}"
        self._client = client
        self._recorder = recorder
        self._options = drawn
        self._makes = makes
        self._positions: dict[int, int] = {}
        self._transactor: Transactor | None = None

    async def run(self, until: Callable[[], bool]) -> None:
        """Run one life after another until stopped."""
        rng, loop = self._client.rng, asyncio.get_running_loop()
        while not until():
            member = self._create_member()
            ends = loop.time() + self._options.life_s * (0.5 + rng.random())
            while not until() and loop.time() < ends:
                await self._work(member, until)
                await asyncio.sleep(self._options.every_s * (0.5 + rng.random()))
            if not until() and rng.random() < DIES:
                member.die()
                self._recorder.history.write(
                    Invoke(t=self._recorder.now(), op=-member.process, process=member.process, f="crash")
                )
            else:
                await member.leave()

    def _create_member(self) -> Member:
        self._positions = {}
        self._transactor = None
        if self._makes:
            self._transactor = Transactor(
                self._name,
                self._client,
                self._recorder,
                timeout_ms=self._options.transaction_timeout_ms,
                second_version=self._options.second_version,
                heeds_level=self._options.heeds_levels,
            )
            process = self._transactor.process
        else:
            process = self._recorder.process(self._name, 0, idempotent=False, isolation="read_committed")
        make = ConsumerMember if self._options.consumer_protocol else ClassicMember
        return make(
            self._group, self._client, self._recorder, process, self._options.session_ms, self._options.partitions
        )

    async def _work(self, member: Member, until: Callable[[], bool]) -> None:
        """One round: membership, position, a poll, and its processing."""
        if member.must_rejoin:
            self._positions = {}
            if not await member.settle():
                return
            self._record_subscription(member)
        if self._transactor is not None and not await self._transactor.ready():
            return
        if not member.owned or member.must_rejoin or until():
            return
        partition = self._client.rng.choice(member.owned)
        if partition not in self._positions:
            # The producer id was fetched before: the last life's open transaction has ended by now.
            place = await self._fetch_committed(member, partition)
            if place is None or member.must_rejoin:
                return
            self._positions[partition] = place
        records = await self._poll(member, partition)
        if records is None or member.must_rejoin:
            return
        rng = self._client.rng
        stall_s = self._options.session_ms / 1000 * (0.5 + 1.5 * rng.random()) if rng.random() < STALLS else 0.0
        member.stalled = stall_s > 0
        if self._makes and records:
            await self._process(member, partition, records, stall_s)
        elif not self._makes and (stall_s or rng.random() < COMMITS):
            await asyncio.sleep(stall_s)
            await self._commit(member, partition)
        member.stalled = False

    def _record_subscription(self, member: Member) -> None:
        names: OperationValue = [f"{SOURCE}-{number}" for number in member.owned]
        op = self._recorder.invoke(member.process, "subscribe", names)
        self._recorder.complete(Ok, op, member.process, names)

    async def _fetch_committed(self, member: Member, partition: int) -> int | None:
        """Fetch the group's offset; None if it is not available now."""
        return await fetch_committed_offset(self._client, self._recorder, self._group, member.process, partition)

    async def _poll(self, member: Member, partition: int) -> list[PolledRecord] | None:
        """Fetch once; None after an error."""
        op = self._recorder.invoke(member.process, "poll", [["poll"]])
        try:
            found = await fetch_committed(self._client, SOURCE, partition, self._positions[partition])
        except NoAnswer as error:
            self._recorder.complete(Fail, op, member.process, [["poll"]], str(error))
            await asyncio.sleep(RETRY_S)
            return None
        if found.code is not ErrorCode.NONE:
            self._recorder.complete(Fail, op, member.process, [["poll"]], found.code.name)
            await asyncio.sleep(RETRY_S)
            return None
        name = f"{SOURCE}-{partition}"
        polled: OperationValue = [["poll", {name: found.records} if found.records else {}]]
        self._recorder.complete(Ok, op, member.process, polled)
        if partition not in self._positions:
            return None  # the membership was looked after meanwhile
        self._positions[partition] = found.position
        return found.records

    async def _process(self, member: Member, partition: int, records: list[PolledRecord], stall_s: float) -> None:
        """Write one record for each, and commit them with the offset after them. After a failure restart."""
        assert self._transactor is not None
        source, sink = f"{SOURCE}-{partition}", f"{SINK}-{partition}"
        draft = Draft(
            offsets={(SOURCE, partition): self._positions[partition]},
            membership=Membership(self._group, member.member_id, member.generation, member.classic),
        )
        for record in records:
            made = self._recorder.next_value(sink)
            draft.records.setdefault((SINK, partition), []).append(made)
            draft.extra.append(["copy", self._group, source, record[1], sink, made])
        commit = self._client.rng.random() >= self._options.abort_share
        if not await self._transactor.run(draft, commit=commit, pause_s=stall_s):
            self._positions.pop(partition, None)

    async def _commit(self, member: Member, partition: int) -> None:
        """Commit where this member is; OffsetCommit, tried once."""
        offset = self._positions[partition]
        name = f"{SOURCE}-{partition}"
        value: OperationValue = [["offset", self._group, name, offset]]
        generation = member.generation if member.classic else None
        recorder = self._recorder
        row = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=member.generation,
            member_id=member.member_id,
            topics=[OffsetCommitRequestTopic(name=SOURCE, partitions=[row])],
        )
        link = CoordinatorLink(self._client, GROUP, self._group)
        op = recorder.invoke(member.process, "commit", value, generation=generation)
        try:
            answer = await link.ask(request, OffsetCommitResponse, newest=BY_NAME)
        except NoAnswer as error:
            kind = Info if error.maybe_sent else Fail
            recorder.complete(kind, op, member.process, value, str(error), generation=generation)
            return
        code = ErrorCode(answer.topics[0].partitions[0].error_code)
        if code is ErrorCode.NONE:
            recorder.complete(Ok, op, member.process, value, generation=generation)
            return
        kind = Fail if code in REFUSED else Info
        recorder.complete(kind, op, member.process, value, code.name, generation=generation)
        if kind is Fail:
            self._positions.pop(partition, None)


REFUSED: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)
"""Error codes of OffsetCommit that mean that nothing was written. NOT_COORDINATOR may be returned after the write."""


async def fetch_committed_offset(
    client: SimClient, recorder: Recorder, group: str, process: int, partition: int
) -> int | None:
    """Fetch a group's committed offset of a SOURCE partition; 0 without one; None if it is unavailable now."""
    name = f"{SOURCE}-{partition}"
    topics = [OffsetFetchRequestTopics(name=SOURCE, partition_indexes=[partition])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=True)
    link = CoordinatorLink(client, GROUP, group)
    op = recorder.invoke(process, "offsets", [["offset", group, name]])
    try:
        answer = await link.ask(request, OffsetFetchResponse, newest=BY_NAME)
    except NoAnswer as error:
        recorder.complete(Fail, op, process, [], str(error))
        await asyncio.sleep(RETRY_S)
        return None
    found = answer.groups[0]
    rows = [row for topic in found.topics for row in topic.partitions]
    code = ErrorCode(found.error_code or (rows[0].error_code if rows else 0))
    if code is not ErrorCode.NONE or not rows:
        recorder.complete(Fail, op, process, [], code.name)
        await asyncio.sleep(RETRY_S)
        return None
    offset = rows[0].committed_offset
    recorder.complete(Ok, op, process, [["offset", group, name, offset]])
    return max(offset, 0) if offset != NOT_COMMITTED else 0
