"""ConsumerGroupHeartbeat and ConsumerGroupDescribe, request by request."""

import asyncio
from dataclasses import replace

import pytest

from kvorum.broker.coordinator.group.consumer.settings import Bounded
from kvorum.protocol.errors import ErrorCode
from tests.unit.broker.coordinator.conftest import Run
from tests.unit.broker.coordinator.consumer.consumer_kit import (
    INTERVAL_MS,
    SESSION_MS,
    Consumer,
    ConsumerWorld,
    consumer_settings,
    settled,
    topic_id,
)
from tests.unit.broker.coordinator.group_kit import GROUP, commit, fetch_request, fetched, subscription
from tests.unit.broker.coordinator.group_kit import Member as ClassicMember


async def world_of(partitions: int = 6, **changes: object) -> ConsumerWorld:
    world = ConsumerWorld(settings=consumer_settings(**changes))
    world.make_topic("t", partitions)
    await world.lead()
    return world


def test_a_member_joins_and_has_everything(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of()
        member = Consumer(world, "a", rack_id="r1")
        answer = await member.join()
        assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval) == (0, 2, INTERVAL_MS)
        assert member.numbers() == set(range(6))
        (row,) = world.described().members
        assert (row.member_id, row.rack_id, row.member_epoch, row.member_type) == ("id-a", "r1", 2, 1)
        assert (row.client_id, row.client_host) == ("a", "/10.0.0.1")
        assert row.assignment == row.target_assignment
        assert row.assignment.topic_partitions[0].topic_name == "t"
        described = world.described()
        assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Stable", 2, 2)
        assert described.assignor_name == "uniform"
        assert (await member.beat(says=False)).assignment is None, "nothing has changed"

    run(scenario())


def test_a_member_that_reads_nothing_yet_is_in_the_group_from_the_first_answer_on(run: Run) -> None:
    """A consumer by Java's Pattern says so before it knows a topic; told epoch 0, it would not join again but fail."""

    async def scenario() -> None:
        world = await world_of()
        member = Consumer(world, "a", topics=[])
        answer = await member.join()
        assert (answer.error_code, answer.member_epoch, member.assigned) == (0, 1, {})
        assert (await member.beat()).member_epoch == 1
        await world.fail_over()
        assert (await member.beat()).member_epoch == 1
        member.topics = ["t"]
        answer = member.take(await member.send(member.full(member.assigned)))
        assert (answer.member_epoch, member.numbers()) == (2, set(range(6)))

    run(scenario())


def test_the_server_makes_the_id_of_an_old_client(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of()
        member = Consumer(world, "a", version=0)
        member.member_id = ""
        answer = await member.join()
        assert answer.member_id is not None and len(answer.member_id) == 22
        assert set(world.group.members) == {answer.member_id}

    run(scenario())


def test_partitions_move_without_a_stop_for_the_others(run: Run) -> None:
    """The first member keeps reading what stays its own; the second has the rest only when the first says it let go."""

    async def scenario() -> None:
        world = await world_of()
        first, second = Consumer(world, "a"), Consumer(world, "b")
        await first.join()
        assert (await second.join()).member_epoch == 3
        assert second.numbers() == set(), "they are the first's still"
        answer = await first.beat()
        assert (answer.member_epoch, first.numbers()) == (2, {0, 1, 2})
        assert world.described().group_state == "Reconciling"
        assert (await second.beat()).assignment is None
        answer = await first.beat()
        assert answer.member_epoch == 3
        await second.beat()
        assert second.numbers() == {3, 4, 5}
        await settled(first, second)

    run(scenario())


def test_a_leaving_members_partitions_go_to_the_others(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of()
        first, second = Consumer(world, "a"), Consumer(world, "b")
        await first.join()
        await second.join()
        await settled(first, second)
        answer = await second.leave()
        assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "id-b", -1)
        await first.beat()
        assert first.numbers() == set(range(6))
        assert (await second.beat()).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        await first.leave()
        assert world.described().group_state == "Empty"

    run(scenario())


def test_a_member_that_is_silent_is_fenced(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of()
        first, second = Consumer(world, "a"), Consumer(world, "b")
        await first.join()
        await second.join()
        await settled(first, second)
        for _ in range(SESSION_MS // INTERVAL_MS + 1):
            await asyncio.sleep(INTERVAL_MS / 1000)
            await first.beat()
        assert set(world.group.members) == {"id-a"}
        assert first.numbers() == set(range(6))

    run(scenario())


def test_a_member_that_does_not_revoke_in_time_is_fenced(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of()
        first, second = Consumer(world, "a"), Consumer(world, "b")
        await first.join()
        await second.join()
        everything = dict(first.assigned)
        for _ in range(13):
            await first.send(first.short(everything))
            await asyncio.sleep(INTERVAL_MS / 1000)
            await second.beat()
        assert set(world.group.members) == {"id-b"}
        assert second.numbers() == set(range(6))

    run(scenario())


def test_epochs_fence(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of()
        member, other = Consumer(world, "a"), Consumer(world, "b")
        await member.join()
        await other.join()
        await settled(member, other)
        newest = member.epoch
        member.epoch = newest + 1
        assert (await member.beat()).error_code == ErrorCode.FENCED_MEMBER_EPOCH
        member.epoch = newest - 1
        before = dict(member.assigned)
        assert (await member.beat()).member_epoch == newest, "the answer with the newest may have been lost"
        member.epoch, member.assigned = newest - 1, {topic_id("t"): set(range(6))}
        answer = await member.beat()
        assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert answer.error_message is not None and "smaller member epoch" in answer.error_message
        await member.join()
        assert member.assigned == before, "fenced, it joins again and has its own"

    run(scenario())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"subscribed_topic_names": None}, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null"),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_a_request_that_makes_no_sense_is_invalid(run: Run, change: dict[str, object], message: str) -> None:
    async def scenario() -> None:
        world = await world_of()
        member = Consumer(world, "a")
        answer = await member.send(replace(member.full({}), **change))  # type: ignore[arg-type]
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert answer.error_message is not None and answer.error_message.startswith(message)
        assert GROUP not in world.partition.state.groups

    run(scenario())


def test_a_group_has_a_limit_and_knows_its_assignors(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of(size_max=1)
        member = Consumer(world, "a", assignor="range")
        await member.join()
        assert world.described().assignor_name == "range"
        assert (await Consumer(world, "b").join()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert (await member.join()).error_code == ErrorCode.NONE, "whoever is in may come again"
        answer = await Consumer(world, "a", assignor="sticky").join()
        assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR

    run(scenario())


def test_no_member_continues_in_a_missing_group(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of()
        member = Consumer(world, "a", epoch=3)
        assert (await member.beat()).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert (await member.leave()).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        (row,) = world.partition.shard.describe_consumer(world.partition.committed_state, [GROUP])
        assert (row.error_code, row.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, f"Group {GROUP} not found.")

    run(scenario())


def test_a_static_member_returns_without_a_rebalance(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of()
        first, other = Consumer(world, "a", instance_id="i"), Consumer(world, "b")
        await first.join()
        await other.join()
        await settled(first, other)
        mine, epoch = dict(first.assigned), world.group.group_epoch
        again = Consumer(world, "c", instance_id="i")
        assert (await again.join()).error_code == ErrorCode.UNRELEASED_INSTANCE_ID
        answer = await first.leave(-2)
        assert (answer.error_code, answer.member_epoch) == (0, -2)
        assert (await other.beat()).assignment is None
        answer = await again.join()
        assert answer.error_code == ErrorCode.NONE
        assert again.assigned == mine
        assert world.group.group_epoch == epoch
        assert (await first.beat()).error_code == ErrorCode.FENCED_INSTANCE_ID
        assert set(world.group.members) == {"id-b", "id-c"}
        first.member_id, first.instance_id = "id-c", "nobody"
        assert (await first.beat()).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    run(scenario())


def test_a_static_member_that_stays_away_is_fenced(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of()
        member = Consumer(world, "a", instance_id="i")
        await member.join()
        await member.leave(-2)
        await asyncio.sleep(SESSION_MS / 1000 + 1)
        assert not world.group.members
        assert not world.group.owners

    run(scenario())


def test_topics_that_are_made_or_grow_are_had_at_the_next_heartbeat(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of(2)
        member = Consumer(world, "a", topics=["t", "u"])
        await member.join()
        world.make_topic("u", 1)
        await member.beat()
        assert member.numbers("u") == {0}
        world.grow_topic("t", 4)
        await member.beat()
        assert member.numbers() == {0, 1, 2, 3}
        world.delete_topic("u")
        await member.beat()
        await member.beat()
        assert member.numbers("u") == set()
        epoch = world.group.group_epoch
        world.make_topic("other", 4)
        await member.beat()
        assert world.group.group_epoch == epoch, "what nobody reads changes nothing"

    run(scenario())


def test_a_new_subscription_takes_away_at_once_and_gives_with_the_next_target(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of(2, assignment_interval_ms=Bounded(1_000, 0, 15_000))
        world.make_topic("u", 2)
        member = Consumer(world, "a")
        await member.join()
        member.topics = ["u"]
        answer = member.take(await member.send(member.full(member.assigned)))
        assert (answer.member_epoch, member.assigned) == (2, {}), "within the interval the target stays"
        await member.beat()
        await asyncio.sleep(1.1)
        await member.beat()
        assert (member.epoch, member.numbers("u")) == (3, {0, 1})

    run(scenario())


def test_a_pattern_is_resolved_in_the_background_to_visible_topics(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of(2)
        world.make_topic("t-1", 1)
        world.make_topic("t-secret", 1)
        world.make_topic("u", 1)
        member = Consumer(world, "a", topics=None, regex="t.*", may_describe=lambda name: name != "t-secret")
        assert (await member.join()).error_code == ErrorCode.NONE
        assert (member.epoch, member.assigned) == (1, {}), "a member of epoch 0 would have to join again"
        await asyncio.sleep(0.1)
        await member.beat()
        assert set(member.assigned) == {topic_id("t"), topic_id("t-1")}
        world.make_topic("t-2", 1)
        await member.beat()
        await asyncio.sleep(0.1)
        await member.beat()
        assert topic_id("t-2") not in member.assigned, "not again within ten seconds"
        await asyncio.sleep(10)
        await member.beat()
        await asyncio.sleep(0.1)
        await member.beat()
        assert set(member.assigned) == {topic_id("t"), topic_id("t-1"), topic_id("t-2")}
        (row,) = world.described().members
        assert (row.subscribed_topic_names, row.subscribed_topic_regex) == ([], "t.*")
        member.regex, member.topics = "", ["u"]
        member.take(await member.send(member.full(member.assigned)))
        await settled(member)
        assert set(member.assigned) == {topic_id("u")}
        assert not world.group.regexes

    run(scenario())


@pytest.mark.parametrize("pattern", ["(", "*a", "a{1001}", "(?=a)b"])
def test_an_invalid_pattern_is_refused(run: Run, pattern: str) -> None:
    async def scenario() -> None:
        world = await world_of()
        answer = await Consumer(world, "a", topics=None, regex=pattern).join()
        assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
        assert answer.error_message is not None
        assert answer.error_message.startswith(f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: ")
        assert GROUP not in world.partition.state.groups

    run(scenario())


def test_a_group_has_times_of_its_own_within_the_brokers_bounds(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of()
        member = Consumer(world, "a")
        await member.join()
        world.configure_group("consumer.heartbeat.interval.ms", "7000")
        world.configure_group("consumer.session.timeout.ms", "999999")
        assert (await member.beat()).heartbeat_interval == 7_000
        await asyncio.sleep(59)
        assert (await member.beat()).error_code == ErrorCode.NONE, "a minute is the longest there may be"
        await asyncio.sleep(61)
        assert (await member.beat()).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    run(scenario())


def test_targets_are_made_at_most_once_in_an_interval(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of(assignment_interval_ms=Bounded(1_000, 0, 15_000))
        first, second = Consumer(world, "a"), Consumer(world, "b")
        await first.join()
        answer = await second.join()
        assert (answer.member_epoch, world.group.group_epoch, world.group.assignment_epoch) == (2, 3, 2)
        assert world.described().group_state == "Assigning"
        await asyncio.sleep(1)
        await settled(first, second)
        assert (first.epoch, len(second.numbers())) == (3, 3)

    run(scenario())


def test_another_broker_continues_where_the_last_one_was(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of()
        first, second = Consumer(world, "a"), Consumer(world, "b", instance_id="i")
        await first.join()
        await second.join()
        await first.beat()
        before = world.group
        await world.fail_over()
        assert world.group == before
        await settled(first, second)
        assert first.numbers() | second.numbers() == set(range(6))
        assert not first.numbers() & second.numbers()

    run(scenario())


def test_offsets_are_committed_by_members_in_their_epoch(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of()
        member = Consumer(world, "a")
        await member.join()
        await commit(world.partition, 5, member_id="id-a", generation=2)
        assert fetched(world.partition, fetch_request()) == [("t", 0, 5)]
        for epoch, code in ((3, ErrorCode.STALE_MEMBER_EPOCH), (1, ErrorCode.STALE_MEMBER_EPOCH)):
            with pytest.raises(Exception) as caught:
                await commit(world.partition, 6, member_id="id-a", generation=epoch, topic_id=topic_id("t"))
            assert getattr(caught.value, "code", None) is code
        with pytest.raises(Exception, match="is not a member") as caught:
            await commit(world.partition, 6, member_id="id-b", generation=2)

    run(scenario())


def test_a_group_is_deleted_when_it_is_empty(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of()
        partition = world.partition
        member = Consumer(world, "a")
        await member.join()
        delete = lambda state, now: partition.shard.delete_group(state, GROUP)  # noqa: E731
        assert await partition.write("delete", delete) is ErrorCode.NON_EMPTY_GROUP
        await member.leave()
        assert await partition.write("delete", delete) is ErrorCode.NONE
        assert GROUP not in partition.state.groups

    run(scenario())


def test_groups_without_members_change_their_protocol(run: Run) -> None:
    async def scenario() -> None:
        world = await world_of()
        await commit(world.partition, 5)
        member = Consumer(world, "a")
        assert (await member.join()).error_code == ErrorCode.NONE, "a group that only has offsets"
        assert fetched(world.partition, fetch_request()) == [("t", 0, 5)]
        await member.leave()
        classic = ClassicMember(world, "c", protocols=[("range", subscription("t"))])
        assert (await classic.join()).error_code == ErrorCode.NONE
        (row,) = world.partition.shard.listed(world.partition.state)
        assert row.group_type == "classic"
        await classic.leave()
        await asyncio.sleep(1)
        assert (await member.join()).error_code == ErrorCode.NONE
        (row,) = world.partition.shard.listed(world.partition.committed_state)
        assert (row.group_type, row.protocol_type, row.group_state) == ("consumer", "consumer", "Stable")
        assert fetched(world.partition, fetch_request()) == [("t", 0, 5)]

    run(scenario())
