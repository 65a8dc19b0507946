"""Another broker leads in the middle of each state of a classic group: who waits is told, and finds itself again."""

import asyncio
from dataclasses import replace

from kvorum.broker.coordinator.group.classic.group import ClassicGroup, loaded_group, metadata_record
from kvorum.broker.coordinator.group.words import ClassicGeneration
from kvorum.broker.coordinator.records.classic import GroupMetadataValue, MemberMetadata
from kvorum.broker.coordinator.records.codec import GroupRecordType, group_record
from kvorum.broker.coordinator.records.consumer import ConsumerGroupMetadataValue, GroupKey
from kvorum.broker.coordinator.runtime.words import Decision
from kvorum.protocol.consumer_protocol import subscribed_topics
from kvorum.protocol.errors import ErrorCode
from tests.unit.broker.coordinator.conftest import Run
from tests.unit.broker.coordinator.group_kit import (
    GROUP,
    NO_DELAY,
    SESSION_MS,
    Member,
    World,
    assigned,
    commit,
    fetched,
    stable,
    subscription,
)

OK = ErrorCode.NONE


def test_in_the_first_rebalance_joins_complete_and_start_again(run: Run) -> None:
    async def scenario() -> None:
        world = World()
        await world.lead()
        members = [Member(world, "a", version=3), Member(world, "b", version=3)]
        parked = [each.ask_join() for each in members]
        await asyncio.sleep(1)
        await world.fail_over()
        assert {(await each).error_code for each in parked} == {ErrorCode.NOT_COORDINATOR}
        assert world.state_name == "Empty"
        joined = await asyncio.gather(*(each.join() for each in members))
        assert {each.generation_id for each in joined} == {1}
        await assigned(members, joined)

    run(scenario())


def test_in_a_later_rebalance_the_last_generation_is_stable_again(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        members = [Member(world, "a"), Member(world, "b")]
        await stable(world, members)
        late = Member(world, "c", version=3)
        parked = late.ask_join()
        await asyncio.sleep(0.1)
        assert await members[0].heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
        await world.fail_over()
        assert (await parked).error_code == ErrorCode.NOT_COORDINATOR
        assert world.state_name == "Stable"
        assert [await each.heartbeat() for each in members] == [OK, OK]
        joined = await asyncio.gather(late.join(), *(each.join() for each in members))
        assert {each.generation_id for each in joined} == {2}
        await assigned([late, *members], joined)

    run(scenario())


def test_before_the_assignment_is_committed_members_join_again(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        members = [Member(world, "a"), Member(world, "b")]
        joined = await asyncio.gather(*(each.join() for each in members))
        leader, follower = sorted(members, key=lambda each: each.member_id != joined[0].leader)
        waiting = follower.ask_sync()
        await asyncio.sleep(0.1)
        await world.fail_over()
        assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
        assert world.state_name == "Empty"
        assert await leader.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
        assert (await leader.ask_sync({leader.member_id: b"x"})).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        for member in members:
            member.member_id = ""
        await stable(world, members)

    run(scenario())


def test_an_assignment_that_was_written_and_not_committed_counts_with_the_next_leader(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        members = [Member(world, "a"), Member(world, "b")]
        joined = await asyncio.gather(*(each.join() for each in members))
        leader, follower = sorted(members, key=lambda each: each.member_id != joined[0].leader)
        world.log.commits_at_once = False
        waiting = follower.ask_sync()
        requested = leader.ask_sync({each.member_id: each.name.encode() for each in members})
        await asyncio.sleep(0.1)
        world.log.commits_at_once = True
        await world.fail_over()
        assert {(await each).error_code for each in (waiting, requested)} == {ErrorCode.NOT_COORDINATOR}
        assert world.state_name == "Stable"
        assert (await follower.ask_sync()).assignment == follower.name.encode()
        assert (await leader.ask_sync()).assignment == leader.name.encode()
        await asyncio.sleep(0.1)

    run(scenario())


def test_stable_members_do_not_notice_and_sessions_start_again(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        alive, dead = Member(world, "a"), Member(world, "b", instance_id="ib")
        await stable(world, [alive, dead])
        await alive.commit(4)
        await asyncio.sleep(SESSION_MS / 1000 - 1)
        assert await alive.heartbeat() is OK
        partition = await world.fail_over()
        assert fetched(partition) == [("t", 0, 4)]
        await asyncio.sleep(SESSION_MS / 1000 - 1)
        assert await alive.heartbeat() is OK
        await asyncio.sleep(2)
        assert await alive.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, "the other's session has ended"
        assert await dead.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID

    run(scenario())


def test_a_static_member_is_known_to_the_next_leader(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        await stable(world, [Member(world, "a", instance_id="ia")])
        await world.fail_over()
        back = Member(world, "a", instance_id="ia")
        assert (await back.join()).generation_id == 1
        assert (await back.ask_sync()).assignment == b"a"

    run(scenario())


def test_an_empty_group_continues_from_its_generation(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        member = Member(world, "a")
        await stable(world, [member])
        await member.leave()
        await world.fail_over()
        assert world.state_name == "Empty"
        again = Member(world, "b")
        assert (await again.join()).generation_id == 3

    run(scenario())


def test_a_group_that_is_too_large_for_the_new_leader_rebalances(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        await world.lead()
        members = [Member(world, name) for name in "abc"]
        await stable(world, members)
        world.settings = replace(NO_DELAY, group_size_max=2)
        await world.fail_over()
        assert world.state_name == "PreparingRebalance"
        codes = [each.error_code for each in await asyncio.gather(*(each.join() for each in members))]
        assert sorted(codes) == [0, 0, ErrorCode.GROUP_MAX_SIZE_REACHED]

    run(scenario())


def test_timers_of_a_leadership_that_is_over_do_nothing(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        partition = await world.lead()
        await stable(world, [Member(world, "a"), Member(world, "b")])
        end = world.log.end
        partition.resign(2)
        await asyncio.sleep(1_000)
        assert world.log.end == end

    run(scenario())


# --- what is told of groups -------------------------------------------------------------------------------------------


def test_describe_reports_members_and_of_their_metadata_once_they_are_stable(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        partition = await world.lead()
        member = Member(world, "a", instance_id="ia")
        joined = await member.join()
        (row,) = partition.shard.describe(partition.committed_state, [GROUP], 6)
        assert (row.group_state, row.protocol_data) == ("CompletingRebalance", "")
        assert [each.member_metadata for each in row.members] == [b""]
        await assigned([member], [joined])
        (row,) = partition.shard.describe(partition.committed_state, [GROUP], 6)
        assert (row.group_state, row.protocol_type, row.protocol_data) == ("Stable", "consumer", "range")
        (reported,) = row.members
        assert (reported.member_id, reported.group_instance_id, reported.client_id) == (member.member_id, "ia", "a")
        assert (reported.client_host, reported.member_metadata) == ("/10.0.0.1", subscription("t"))
        assert reported.member_assignment == b"a"

    run(scenario())


def test_a_group_that_is_missing_is_dead_and_an_error_to_newer_clients(run: Run) -> None:
    async def scenario() -> None:
        partition = await World().lead()
        for version, code in ((5, 0), (6, ErrorCode.GROUP_ID_NOT_FOUND)):
            (row,) = partition.shard.describe(partition.committed_state, ["x"], version)
            assert (row.error_code, row.group_state) == (code, "Dead")

    run(scenario())


def test_groups_are_listed_by_state_and_type(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        partition = await world.lead()
        await stable(world, [Member(world, "a")])
        await commit(partition, 1, group_id="simple")
        record = group_record(
            GroupRecordType.CONSUMER_GROUP_METADATA, GroupKey(group_id="new"), ConsumerGroupMetadataValue(epoch=1)
        )
        await partition.write("c", lambda state, now: Decision(response=None, records=[record]))

        def reported(states: list[str], types: list[str]) -> list[tuple[str, str, str, str]]:
            rows = partition.shard.listed(partition.committed_state, states, types)
            return [(row.group_id, row.protocol_type, row.group_state, row.group_type) for row in rows]

        new, orders, simple = (
            ("new", "consumer", "Empty", "consumer"),
            (GROUP, "consumer", "Stable", "classic"),
            ("simple", "", "Empty", "classic"),
        )
        assert reported([], []) == [new, orders, simple]
        assert reported(["EMPTY"], []) == [new, simple]
        assert reported([], ["Classic"]) == [orders, simple]
        assert reported(["stable"], ["consumer"]) == reported([], ["share"]) == []

    run(scenario())


def test_an_empty_consumer_group_becomes_a_classic_one(run: Run) -> None:
    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        partition = await world.lead()
        record = group_record(
            GroupRecordType.CONSUMER_GROUP_METADATA, GroupKey(group_id=GROUP), ConsumerGroupMetadataValue(epoch=4)
        )
        await partition.write("c", lambda state, now: Decision(response=None, records=[record]))
        member = Member(world, "a")
        await stable(world, [member])
        assert world.generation_in_log().value.members[0].member_id == member.member_id

    run(scenario())


# --- what lies in the log ---------------------------------------------------------------------------------------------


def wall_ms() -> int:
    return 1


def test_a_group_is_restored_from_its_generation_record() -> None:
    row = MemberMetadata(
        member_id="m", client_id="c", client_host="/h", session_timeout=10, subscription=subscription("t", "u")
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="m",
        current_state_timestamp=99,
        members=[row, row, replace(row, member_id="n", group_instance_id="i", rebalance_timeout=20)],
    )
    group: ClassicGroup = loaded_group(ClassicGeneration("g", value), wall_ms)
    assert (group.state.value, group.generation, group.leader_id) == ("Stable", 4, "m")
    assert [each.rebalance_timeout_ms for each in group.members.values()] == [10, 20], "one of an id"
    assert group.topics == frozenset({"t", "u"}) and group.static_members == {"i": "n"}
    again = replace(value, members=[replace(row, rebalance_timeout=10), value.members[2]])
    assert group.generation_record({}) == metadata_record("g", again)


def test_a_subscription_that_cannot_be_read_leaves_the_topics_unknown() -> None:
    whole = subscription("topic", "other")
    assert subscribed_topics(whole) == ["topic", "other"]
    for end in range(len(whole) - 4):
        assert subscribed_topics(whole[:end]) is None
    assert subscribed_topics(b"\0\0\x7f\xff\xff\xff") is None
