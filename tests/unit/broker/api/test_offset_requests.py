"""OffsetCommit, OffsetFetch, OffsetDelete: versions, rights, errors."""

import asyncio
from dataclasses import dataclass

import pytest

from kvorum.broker.coordinator.runtime.words import Producer
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kvorum.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from tests.unit.broker.api.api_kit import OTHER_ID, TOPIC_ID, Rules
from tests.unit.broker.api.group_requests import GROUP, Groups, a_commit, a_fetch, codes_of, offsets_of, running
from tests.unit.broker.coordinator.group_kit import commit_in_transaction

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
PRODUCER = Producer(7, 0)


@dataclass
class Held:
    """Quotas that hold everybody back."""

    ms: int
    enabled: bool = True

    def throttle_ms(self, ctx: RequestContext, *, produced: int = 0, exempt: bool = False) -> int:
        return self.ms


def called(name: str, version: int) -> str | Uuid:
    """Return how a version names a topic."""
    return {"t": TOPIC_ID, "other": OTHER_ID}[name] if version >= 10 else name


@pytest.mark.parametrize("version", range(2, 11))
def test_commits_of_every_version_are_fetched_by_every_version(version: int) -> None:
    async def work() -> None:
        groups = Groups()
        await groups.world.lead()
        answer = await groups.ask(a_commit(version, ("t", 0, 42), ("other", 0, 7)), version)
        assert codes_of(answer) == [(called("t", version), 0, 0), (called("other", version), 0, 0)]
        for fetch in range(1, 11):
            answer = await groups.ask(a_fetch(fetch, "t"), fetch)
            name = called("t", fetch)
            assert offsets_of(answer, fetch) == [(name, 0, 42, 0), (name, 1, -1, 0)]
        for fetch in range(2, 11):
            answer = await groups.ask(a_fetch(fetch), fetch)
            assert offsets_of(answer, fetch) == [(called("other", fetch), 0, 7, 0), (called("t", fetch), 0, 42, 0)]

    running(work())


def test_commits_of_one_turn_of_the_loop_are_one_batch() -> None:
    async def work() -> None:
        groups = Groups()
        await groups.world.lead()
        batches = len(groups.world.log.data)
        requested = [asyncio.ensure_future(groups.ask(a_commit(9, ("t", 0, offset)), 9)) for offset in range(10)]
        for answer in await asyncio.gather(*requested):
            assert codes_of(answer) == [("t", 0, 0)]
        assert len(groups.world.log.data) == batches + 1
        assert offsets_of(await groups.ask(a_fetch(9, "t"), 9), 9)[0] == ("t", 0, 9, 0)

    running(work())


def test_rejected_and_committed_offsets_are_in_one_throttled_response() -> None:
    async def work() -> None:
        groups = Groups()
        groups.broker.quotas = Held(120)
        await groups.world.lead()
        answer = await groups.ask(a_commit(9, ("t", 0, 42), ("nothing", 0, 1), ("t", 7, 1)), 9)
        assert sorted(codes_of(answer)) == [("nothing", 0, UNKNOWN), ("t", 0, 0), ("t", 7, UNKNOWN)]
        assert answer.throttle_time == 120
        assert (await groups.ask(a_commit(9, ("nothing", 0, 1)), 9)).throttle_time == 120

    running(work())


def test_a_commit_is_answered_when_it_is_committed() -> None:
    async def work() -> None:
        groups = Groups()
        await groups.world.lead()
        groups.world.log.commits_at_once = False
        requested = asyncio.ensure_future(groups.ask(a_commit(9, ("t", 0, 42)), 9))
        stable = asyncio.ensure_future(groups.ask(a_fetch(9, "t", require_stable=True), 9))
        await asyncio.sleep(1)
        assert not requested.done() and not stable.done()
        assert offsets_of(await groups.ask(a_fetch(9, "t"), 9), 9)[0] == ("t", 0, -1, 0)
        groups.world.log.commit()
        assert codes_of(await requested) == [("t", 0, 0)]
        assert offsets_of(await stable, 9)[0] == ("t", 0, 42, 0)

    running(work())


def test_a_commit_that_timed_out_may_still_succeed() -> None:
    async def work() -> None:
        groups = Groups()
        await groups.world.lead()
        groups.world.log.commits_at_once = False
        answer = await groups.ask(a_commit(9, ("t", 0, 42)), 9)
        assert codes_of(answer) == [("t", 0, ErrorCode.COORDINATOR_NOT_AVAILABLE)]
        fetched = await groups.ask(a_fetch(9, "t", require_stable=True), 9)
        assert fetched.groups[0].error_code == ErrorCode.NOT_COORDINATOR
        groups.world.log.commit()
        assert offsets_of(await groups.ask(a_fetch(9, "t"), 9), 9)[0] == ("t", 0, 42, 0)

    running(work())


@pytest.mark.parametrize("version", range(2, 11))
def test_each_partition_of_a_commit_has_a_code_of_its_own(version: int) -> None:
    async def work() -> None:
        groups = Groups(Rules({(Operation.READ, ResourceType.TOPIC, "other")}))
        await groups.world.lead()
        request = a_commit(version, ("t", 0, 1), ("t", 5, 1), ("other", 0, 1), ("none", 0, 1))
        answer = await groups.ask(request, version)
        assert sorted(codes_of(answer), key=str) == sorted(
            [
                (called("t", version), 0, 0),
                (called("t", version), 5, UNKNOWN),
                (called("other", version), 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
                (ZERO_UUID, 0, ErrorCode.UNKNOWN_TOPIC_ID) if version >= 10 else ("none", 0, UNKNOWN),
            ],
            key=str,
        )
        assert len(answer.topics) == 3, "each topic once"

    running(work())


def test_a_commit_without_existing_partitions_sends_no_request() -> None:
    async def work() -> None:
        groups = Groups()
        answer = await groups.ask(a_commit(9, ("none", 0, 1)), 9)
        assert codes_of(answer) == [("none", 0, UNKNOWN)]

    running(work())


def test_a_commit_without_read_permission_on_the_group_is_rejected() -> None:
    async def work() -> None:
        groups = Groups(Rules({(Operation.READ, ResourceType.GROUP, GROUP)}))
        await groups.world.lead()
        answer = await groups.ask(a_commit(9, ("t", 0, 1)), 9)
        assert codes_of(answer) == [("t", 0, ErrorCode.GROUP_AUTHORIZATION_FAILED)]

    running(work())


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_member_of_no_group_commits_nothing(version: int, code: ErrorCode) -> None:
    async def work() -> None:
        groups = Groups()
        await groups.world.lead()
        answer = await groups.ask(a_commit(version, ("t", 0, 1), member_id="me", generation=3), version)
        assert codes_of(answer) == [("t", 0, code)]

    running(work())


def test_offsets_are_kept_with_the_topics_id() -> None:
    async def work() -> None:
        groups = Groups()
        await groups.world.lead()
        await groups.ask(a_commit(2, ("t", 0, 42)), 2)
        (committed,) = groups.world.partition.committed_state.group_offsets(GROUP).values()
        assert committed.topic_id == TOPIC_ID

    running(work())


@pytest.mark.parametrize("version", range(1, 11))
def test_offset_fetch_permissions(version: int) -> None:
    async def work() -> None:
        groups = Groups(Rules({(Operation.DESCRIBE, ResourceType.TOPIC, "other")}))
        await groups.world.lead()
        await groups.ask(a_commit(9, ("t", 0, 42), ("other", 0, 7)), 9)
        refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        found = offsets_of(await groups.ask(a_fetch(version, "other", "t"), version), version)
        assert found == [
            (called("t", version), 0, 42, 0),
            (called("t", version), 1, -1, 0),
            (called("other", version), 0, -1, refused),
            (called("other", version), 1, -1, refused),
        ]
        if version >= 2:
            everything = offsets_of(await groups.ask(a_fetch(version), version), version)
            assert everything == [(called("t", version), 0, 42, 0)]

    running(work())


@pytest.mark.parametrize("version", range(1, 11))
def test_a_refused_group_is_reported_where_the_version_has_a_place_for_it(version: int) -> None:
    async def work() -> None:
        refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
        groups = Groups(Rules({(Operation.DESCRIBE, ResourceType.GROUP, GROUP)}))
        await groups.world.lead()
        answer = await groups.ask(a_fetch(version, "t"), version)
        if version == 1:
            assert offsets_of(answer, version) == [("t", 0, -1, refused), ("t", 1, -1, refused)]
        else:
            assert (answer.groups[0] if version >= 8 else answer).error_code == refused
            assert offsets_of(answer, version) == []

    running(work())


@pytest.mark.parametrize("version", range(1, 11))
def test_a_missing_coordinator_is_also_reported_in_the_rows_up_to_v7(version: int) -> None:
    """aiokafka reads the rows alone, and takes none for a group that never committed."""

    async def work() -> None:
        groups = Groups()
        await groups.world.lead()
        groups.world.partition.resign(99)
        answer = await groups.ask(a_fetch(version, "t"), version)
        if version >= 2:
            assert (answer.groups[0] if version >= 8 else answer).error_code == ErrorCode.NOT_COORDINATOR
        reported = [("t", each, -1, ErrorCode.NOT_COORDINATOR) for each in (0, 1)]
        assert offsets_of(answer, version) == (reported if version < 8 else [])

    running(work())


def test_several_groups_at_once_each_with_its_own_outcome() -> None:
    async def work() -> None:
        groups = Groups(Rules({(Operation.DESCRIBE, ResourceType.GROUP, "secret")}))
        await groups.world.lead()
        await groups.ask(a_commit(9, ("t", 0, 42)), 9)
        requested = [OffsetFetchRequestGroup(group_id=each, topics=None) for each in ("secret", GROUP, "none")]
        rows = (await groups.ask(OffsetFetchRequest(groups=requested), 8)).groups
        assert [(row.group_id, row.error_code, len(row.topics)) for row in rows] == [
            ("secret", ErrorCode.GROUP_AUTHORIZATION_FAILED, 0),
            (GROUP, 0, 1),
            ("none", 0, 0),
        ]

    running(work())


def test_an_unknown_topic_id_is_reported_by_itself() -> None:
    async def work() -> None:
        groups = Groups()
        await groups.world.lead()
        answer = await groups.ask(a_fetch(10, "none", "t"), 10)
        assert [(row[0], row[3]) for row in offsets_of(answer, 10)] == [
            *[(TOPIC_ID, 0)] * 2,
            *[(ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_ID)] * 2,
        ]

    running(work())


@pytest.mark.parametrize("version", range(7, 11))
def test_offsets_pending_in_a_transaction_are_unstable(version: int) -> None:
    async def work() -> None:
        groups = Groups()
        await groups.world.lead()
        await groups.ask(a_commit(9, ("t", 0, 42)), 9)
        await commit_in_transaction(groups.world.partition, PRODUCER, 50)
        name = called("t", version)
        answer = await groups.ask(a_fetch(version, "t", require_stable=True), version)
        assert offsets_of(answer, version)[0] == (name, 0, -1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        answer = await groups.ask(a_fetch(version, "t"), version)
        assert offsets_of(answer, version)[0] == (name, 0, 42, 0)

    running(work())


def a_delete(*rows: tuple[str, int]) -> OffsetDeleteRequest:
    topics = [
        OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index)])
        for name, index in rows
    ]
    return OffsetDeleteRequest(group_id=GROUP, topics=topics)


def test_offsets_of_unread_topics_are_deleted() -> None:
    async def work() -> None:
        groups = Groups(Rules({(Operation.READ, ResourceType.TOPIC, "secret")}))
        await groups.world.lead()
        member_id, generation = await groups.a_member()
        rows = (("t", 0, 42), ("other", 0, 7))
        await groups.ask(a_commit(9, *rows, member_id=member_id, generation=generation), 9)
        answer = await groups.ask(a_delete(("t", 0), ("other", 0), ("other", 3), ("secret", 0), ("none", 0)), 0)
        assert answer.error_code == 0
        assert sorted(codes_of(answer)) == [
            ("none", 0, UNKNOWN),
            ("other", 0, 0),
            ("other", 3, UNKNOWN),
            ("secret", 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            ("t", 0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
        ]
        assert offsets_of(await groups.ask(a_fetch(9), 9), 9) == [("t", 0, 42, 0)]

    running(work())


def test_an_offset_delete_of_a_group_that_may_not_be_or_does_not_exist() -> None:
    async def work() -> None:
        refused = Groups(Rules({(Operation.DELETE, ResourceType.GROUP, GROUP)}))
        answer = await refused.ask(a_delete(("t", 0)), 0)
        assert (answer.error_code, answer.topics) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])
        groups = Groups()
        await groups.world.lead()
        answer = await groups.ask(a_delete(("t", 0), ("none", 0)), 0)
        assert (answer.error_code, answer.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])

    running(work())
