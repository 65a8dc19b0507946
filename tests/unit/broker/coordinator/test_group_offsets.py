"""Committed offsets: who may commit, what a fetch finds, what is deleted and what expires."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from kvorum.broker.coordinator.group import offsets
from kvorum.broker.coordinator.group.commit_rules import CommitTerms, commit_terms, is_subscribed
from kvorum.broker.coordinator.group.offsets import fetch
from kvorum.broker.coordinator.group.words import (
    ConsumerGroup,
    ConsumerMember,
    GroupsState,
    OffsetKey,
    ResolvedRegex,
)
from kvorum.broker.coordinator.records.consumer import ClassicMemberMetadata
from kvorum.broker.coordinator.runtime.words import Producer
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from kvorum.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.records import RemoveTopic, Topic
from tests.unit.broker.coordinator.conftest import Run
from tests.unit.broker.coordinator.group_kit import (
    GROUP,
    NO_DELAY,
    Member,
    Partition,
    World,
    commit,
    commit_in_transaction,
    fetch_request,
    fetched,
    rows_of,
    stable,
    subscription,
)
from tests.unit.broker.coordinator.runtime_kit import marker

PRODUCER = Producer(5, 0)
TOPIC_ID, OTHER_ID = Uuid(b"a" * 16), Uuid(b"b" * 16)
RETENTION = replace(NO_DELAY, offsets_retention_ms=60_000, offsets_retention_check_interval_ms=10_000)


async def refused(future: "asyncio.Future[Any]") -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        await future
    return error.value.code


def test_a_consumer_without_a_group_commits_and_finds_its_offset(run: Run) -> None:
    async def scenario() -> None:
        partition = await World().lead()
        answer = await commit(partition, 42, metadata="note")
        assert [(t.name, [(p.partition_index, p.error_code) for p in t.partitions]) for t in answer.topics] == [
            ("t", [(0, 0)])
        ]
        (topic,) = fetch(partition.committed_state, fetch_request(), require_stable=False).topics
        (row,) = topic.partitions
        assert (row.committed_offset, row.committed_leader_epoch, row.metadata, row.error_code) == (42, 3, "note", 0)
        assert partition.shard.listed(partition.committed_state)[0].group_state == "Empty"

    run(scenario())


@pytest.mark.parametrize(("version", "code"), [(9, ErrorCode.GROUP_ID_NOT_FOUND), (8, ErrorCode.ILLEGAL_GENERATION)])
def test_a_commit_of_a_generation_of_no_group_is_refused(run: Run, version: int, code: ErrorCode) -> None:
    async def scenario() -> None:
        partition = await World().lead()
        assert await refused(commit(partition, 1, generation=3, member_id="m", version=version)) is code
        assert not partition.state.groups

    run(scenario())


def test_a_non_member_cannot_commit_to_a_group_with_members(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        partition = await world.lead()
        member = Member(world, "a")
        await stable(world, [member])
        assert await refused(commit(partition, 1)) is ErrorCode.UNKNOWN_MEMBER_ID
        await member.commit(7)
        assert fetched(partition) == [("t", 0, 7)]
        await member.leave()
        await commit(partition, 8)
        assert fetched(partition) == [("t", 0, 8)]

    run(scenario())


def test_commits_keep_a_session_alive(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        member = Member(world, "a")
        await stable(world, [member])
        for offset in range(5):
            await asyncio.sleep(9)
            await member.commit(offset)
        assert world.state_name == "Stable"
        await asyncio.sleep(10.1)
        assert world.state_name == "Empty"

    run(scenario())


@pytest.mark.parametrize(
    ("metadata", "is_kept"),
    [("x" * 4_096, True), ("x" * 4_097, False), ("\U0001f600" * 2_048, True), ("\U0001f600" * 2_049, False)],
)
def test_metadata_too_large_refuses_that_partition(run: Run, metadata: str, is_kept: bool) -> None:
    async def scenario() -> None:
        partition = await World().lead()
        answer = await commit(partition, 1, metadata=metadata)
        code = answer.topics[0].partitions[0].error_code
        assert code == (ErrorCode.NONE if is_kept else ErrorCode.OFFSET_METADATA_TOO_LARGE)
        assert fetched(partition) == [("t", 0, 1 if is_kept else -1)]

    run(scenario())


def test_offsets_of_a_transaction_are_pending_until_it_ends(run: Run) -> None:
    async def scenario() -> None:
        partition = await World().lead()
        await commit(partition, 1)
        await commit_in_transaction(partition, PRODUCER, 9)
        assert fetched(partition) == [("t", 0, 1)]
        answer = await partition.write("f", lambda state, now: partition.shard.fetch_stable(state, fetch_request()))
        (row,) = answer.topics[0].partitions
        assert (row.error_code, row.committed_offset) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        await partition.write_marker(marker(PRODUCER, is_commit=True), PRODUCER, True)
        answer = await partition.write("f", lambda state, now: partition.shard.fetch_stable(state, fetch_request()))
        assert rows_of(answer) == [("t", 0, 9)]

    run(scenario())


def test_an_aborted_transaction_does_not_change_the_offset(run: Run) -> None:
    async def scenario() -> None:
        partition = await World().lead()
        await commit(partition, 1)
        await commit_in_transaction(partition, PRODUCER, 9)
        await partition.write_marker(marker(PRODUCER, is_commit=False), PRODUCER, False)
        assert fetched(partition) == [("t", 0, 1)] and not list(partition.state.pending_of(GROUP))

    run(scenario())


def test_a_transaction_of_a_former_generation_is_fenced_and_one_that_knows_none_is_not(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        partition = await world.lead()
        member = Member(world, "a")
        await stable(world, [member])
        stranger = commit_in_transaction(partition, PRODUCER, 1, member_id="x", generation=1)
        assert await refused(stranger) is ErrorCode.UNKNOWN_MEMBER_ID
        stale = commit_in_transaction(partition, PRODUCER, 1, member_id=member.member_id, generation=0)
        assert await refused(stale) is ErrorCode.ILLEGAL_GENERATION
        await commit_in_transaction(partition, PRODUCER, 1)
        await commit_in_transaction(partition, PRODUCER, 2, member_id=member.member_id, generation=1)

    run(scenario())


def test_a_fetch_without_topics_finds_all(run: Run) -> None:
    async def scenario() -> None:
        partition = await World().lead()
        for topic, index in (("b", 0), ("a", 1), ("a", 0)):
            await commit(partition, index + 5, topic=topic, index=index)
        everything = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
        assert fetched(partition, everything) == [("a", 0, 5), ("a", 1, 6), ("b", 0, 5)]
        nobody = OffsetFetchRequestGroup(group_id="nobody", topics=None)
        assert fetched(partition, nobody) == []
        nobody.topics = fetch_request().topics
        assert fetched(partition, nobody) == [("t", 0, -1)]

    run(scenario())


def test_an_offset_of_a_topic_that_was_recreated_is_none(run: Run) -> None:
    async def scenario() -> None:
        partition = await World().lead()
        await commit(partition, 4, topic_id=TOPIC_ID)
        assert fetched(partition, fetch_request(topic_id=TOPIC_ID)) == [("t", 0, 4)]
        assert fetched(partition, fetch_request(topic_id=OTHER_ID)) == [("t", 0, -1)]
        assert fetched(partition) == [("t", 0, 4)]

    run(scenario())


async def delete(partition: Partition, topic: str = "t", group_id: str = GROUP) -> OffsetDeleteResponse:
    rows = [OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])]
    request = OffsetDeleteRequest(group_id=group_id, topics=rows)
    return await partition.write("delete", lambda state, now: partition.shard.delete_offsets(state, request))


def code_of(answer: OffsetDeleteResponse) -> int:
    return answer.topics[0].partitions[0].error_code


def test_offsets_are_deleted_except_of_subscribed_topics(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        partition = await world.lead()
        member = Member(world, "a", protocols=[("range", subscription("t"))])
        await stable(world, [member])
        await member.commit(1)
        await member.commit(2, topic="u")
        assert code_of(await delete(partition)) == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        assert code_of(await delete(partition, "u")) == 0
        everything = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
        assert fetched(partition, everything) == [("t", 0, 1)]
        await member.leave()
        await commit_in_transaction(partition, PRODUCER, 9)
        assert code_of(await delete(partition)) == 0
        await partition.write_marker(marker(PRODUCER, is_commit=True), PRODUCER, True)
        assert fetched(partition, everything) == [], "the pending one was deleted, too"

    run(scenario())


@pytest.mark.parametrize(
    ("group_id", "code"),
    [("", ErrorCode.INVALID_GROUP_ID), ("nobody", ErrorCode.GROUP_ID_NOT_FOUND), (GROUP, ErrorCode.NON_EMPTY_GROUP)],
)
def test_a_deletion_is_refused(run: Run, group_id: str, code: ErrorCode) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        partition = await world.lead()
        await stable(world, [Member(world, "a", protocol_type="connect")])
        assert await refused(asyncio.ensure_future(delete(partition, group_id=group_id))) is code

    run(scenario())


def test_groups_are_deleted_with_their_offsets_once_they_are_empty(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        partition = await world.lead()
        member = Member(world, "a")
        await stable(world, [member])
        await member.commit(1)

        async def delete_group() -> ErrorCode:
            return await partition.write("delete", lambda state, now: partition.shard.delete_group(state, GROUP))

        assert await delete_group() is ErrorCode.NON_EMPTY_GROUP
        await member.leave()
        assert await delete_group() is ErrorCode.NONE
        assert world.state_name == "Dead" and not partition.state.groups and not partition.state.offsets
        assert not partition.shard.classic_groups()
        assert await delete_group() is ErrorCode.GROUP_ID_NOT_FOUND
        again = Member(world, "b")
        assert (await again.join()).generation_id == 1

    run(scenario())


# --- expiry -----------------------------------------------------------------------------------------------------------


def test_offsets_without_a_group_expire_after_their_commit(run: Run) -> None:
    async def scenario() -> None:
        partition = await World(settings=RETENTION).lead()
        await commit(partition, 1)
        await asyncio.sleep(35)
        await commit(partition, 2, index=1)
        await asyncio.sleep(36)
        assert set(partition.state.group_offsets(GROUP)) == {OffsetKey("t", 1)}
        await asyncio.sleep(40)
        assert not partition.committed_state.groups, "without offsets, the group goes"

    run(scenario())


def test_offsets_of_a_group_expire_after_its_last_member_left(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=RETENTION)
        partition = await world.lead()
        member = Member(world, "a", session_ms=1_000_000)
        await stable(world, [member])
        await member.commit(1)
        await member.commit(1, topic="unsubscribed")
        await asyncio.sleep(200)
        assert set(partition.state.group_offsets(GROUP)) == {OffsetKey("t", 0)}, "what is subscribed is kept"
        await member.leave()
        await asyncio.sleep(49)
        assert fetched(partition) == [("t", 0, 1)]
        await asyncio.sleep(22)
        assert not partition.committed_state.groups and not partition.committed_state.offsets

    run(scenario())


def test_offsets_with_an_expiry_of_their_own_keep_to_it(run: Run) -> None:
    async def scenario() -> None:
        partition = await World(settings=RETENTION).lead()
        await commit(partition, 1, retention_ms=5_000, version=4)
        await commit(partition, 1, index=1, retention_ms=500_000, version=4)
        await asyncio.sleep(80)
        assert set(partition.state.group_offsets(GROUP)) == {OffsetKey("t", 1)}

    run(scenario())


def test_nothing_expires_that_a_transaction_is_about_to_commit(run: Run) -> None:
    async def scenario() -> None:
        partition = await World(settings=RETENTION).lead()
        await commit(partition, 1)
        await commit_in_transaction(partition, PRODUCER, 2)
        await asyncio.sleep(200)
        assert fetched(partition) == [("t", 0, 1)]
        await partition.write_marker(marker(PRODUCER, is_commit=False), PRODUCER, False)
        await asyncio.sleep(20)
        assert not partition.state.groups

    run(scenario())


def test_many_groups_are_looked_at_in_turns(run: Run) -> None:
    async def scenario() -> None:
        partition = await World(settings=RETENTION).lead()
        for number in range(1_203):
            commit(partition, number, group_id=f"g{number}")
        await asyncio.sleep(55)
        assert len(partition.state.groups) == 1_203
        await asyncio.sleep(20)
        assert not partition.state.groups and not partition.state.offsets

    run(scenario())


def test_offsets_of_deleted_topics_are_forgotten(run: Run) -> None:
    async def scenario() -> None:
        world = World()
        partition = await world.lead()
        before = MetadataDelta(MetadataImage())
        before.replay(Topic(name="t", topic_id=TOPIC_ID))
        image = before.apply(1, 1)
        await commit(partition, 1, topic_id=TOPIC_ID)
        await commit(partition, 1, index=1, topic_id=OTHER_ID)
        await commit(partition, 1, topic="u")
        await commit_in_transaction(partition, PRODUCER, 2)
        delta = MetadataDelta(image)
        delta.replay(RemoveTopic(topic_id=TOPIC_ID))
        partition.metadata_changed(delta, delta.apply(2, 1))
        await asyncio.sleep(0.1)
        assert set(partition.committed_state.group_offsets(GROUP)) == {OffsetKey("t", 1), OffsetKey("u", 0)}
        assert not list(partition.committed_state.pending_of(GROUP))

    run(scenario())


# --- consumer groups --------------------------------------------------------------------------------------------------


def consumer_group(**options: object) -> ConsumerGroup:
    member = ConsumerMember(
        member_id="m",
        member_epoch=5,
        assigned={TOPIC_ID: {0: 3, 1: 5}},
        pending_revocation={TOPIC_ID: {2: 4}},
        subscribed_topic_names=("t",),
        subscribed_topic_regex="x.*",
        **options,  # type: ignore[arg-type]
    )
    state = ConsumerGroup(group_id=GROUP)
    regexes = state.regexes.insert("x.*", ResolvedRegex(frozenset({"xy"}), 1, 1))
    return replace(state, members=state.members.insert("m", member), regexes=regexes)


@pytest.mark.parametrize(
    ("member_id", "epoch", "partition", "version", "code"),
    [
        ("m", 5, 7, 9, None),
        ("m", 5, 0, 8, ErrorCode.UNSUPPORTED_VERSION),
        ("m", 6, 0, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("m", 4, 0, 9, None),
        ("m", 4, 1, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("m", 4, 2, 9, None),
        ("m", 4, 9, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("n", 5, 0, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, 0, 9, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_consumer_group_takes_commits_of_partitions_a_member_had_in_that_epoch(
    member_id: str, epoch: int, partition: int, version: int, code: ErrorCode | None
) -> None:
    def decide(group: ConsumerGroup, is_transactional: bool = False) -> ErrorCode | None:
        terms = CommitTerms(
            member_id=member_id,
            instance_id=None,
            epoch=epoch,
            api_version=version,
            is_transactional=is_transactional,
        )
        try:
            commit_terms(group, terms)(TOPIC_ID, partition)
        except KafkaError as error:
            return error.code
        return None

    assert decide(consumer_group()) is code
    if code is ErrorCode.STALE_MEMBER_EPOCH:
        assert decide(consumer_group(classic=ClassicMemberMetadata())) is ErrorCode.ILLEGAL_GENERATION
    if not member_id:
        assert decide(consumer_group(), is_transactional=True) is None


def test_a_consumer_groups_topics_are_named_ones_and_pattern_matches() -> None:
    assert [is_subscribed(consumer_group(), topic) for topic in ("t", "xy", "z")] == [True, True, False]


def test_a_member_fetches_with_its_own_epoch_or_without_a_member_id() -> None:
    group = consumer_group()
    state = GroupsState(groups=GroupsState().groups.insert(GROUP, group))
    for member_id, epoch, code in (
        (None, -1, None),
        ("m", 5, None),
        ("m", 4, ErrorCode.STALE_MEMBER_EPOCH),
        ("n", 5, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        request = replace(fetch_request(), member_id=member_id, member_epoch=epoch)
        try:
            assert rows_of(offsets.fetch(state, request, require_stable=True)) == [("t", 0, -1)] and code is None
        except KafkaError as error:
            assert error.code is code
