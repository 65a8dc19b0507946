"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups, ListGroups, DeleteGroups: versions, rights, errors."""

import asyncio
from dataclasses import replace

import pytest

from kvorum.broker.api import heartbeat
from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.delete_groups import DeleteGroupsRequest
from kvorum.protocol.messages.describe_groups import DescribeGroupsRequest
from kvorum.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kvorum.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kvorum.protocol.messages.list_groups import ListGroupsRequest
from tests.unit.broker.api.api_kit import Rules
from tests.unit.broker.api.group_requests import GROUP, Groups, a_commit, a_join, a_sync, running
from tests.unit.broker.coordinator.group_kit import NO_DELAY, World

READ_GROUP = (Operation.READ, ResourceType.GROUP, GROUP)
DESCRIBE_GROUP = (Operation.DESCRIBE, ResourceType.GROUP, GROUP)
NOT_LED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


@pytest.mark.parametrize("version", range(10))
def test_every_version_joins_and_a_new_member_is_given_its_id_first_from_v4_on(version: int) -> None:
    async def work() -> None:
        groups = Groups()
        await groups.world.lead()
        first = await groups.ask(a_join(version), version)
        assert first.error_code == (ErrorCode.MEMBER_ID_REQUIRED if version >= 4 else 0)
        joined = await groups.join(version, first.member_id) if version >= 4 else first
        assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, joined.member_id)
        assert joined.protocol_name == "range"
        assert joined.protocol_type == ("consumer" if version >= 7 else None)
        assert [each.member_id for each in joined.members] == [joined.member_id]
        (member,) = groups.world.partition.shard.classic_groups()[GROUP].members.values()
        assert (member.client_id, member.client_host) == ("app", "/10.0.0.1")
        assert member.rebalance_timeout_ms == (60_000 if version >= 1 else 10_000)

    running(work())


@pytest.mark.parametrize("version", range(6))
def test_every_version_syncs_and_the_assignment_is_committed_first(version: int) -> None:
    async def work() -> None:
        groups = Groups()
        await groups.world.lead()
        joined = await groups.join(9)
        groups.world.log.commits_at_once = False
        request = a_sync(joined)
        if version < 5:
            request.protocol_type = request.protocol_name = None
        requested = asyncio.ensure_future(groups.ask(request, version))
        await asyncio.sleep(0.05)
        assert not requested.done()
        groups.world.log.commit()
        answer = await requested
        assert (answer.error_code, answer.assignment) == (0, b"mine")
        assert answer.protocol_name == ("range" if version >= 5 else None)

    running(work())


def test_a_sync_from_v5_on_names_its_protocol() -> None:
    async def work() -> None:
        groups = Groups()
        await groups.world.lead()
        request = a_sync(await groups.join(9))
        request.protocol_name = None
        assert (await groups.ask(request, 5)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    running(work())


@pytest.mark.parametrize("version", range(5))
def test_a_member_is_alive_until_another_generation(version: int) -> None:
    async def work() -> None:
        groups = Groups()
        await groups.world.lead()
        member_id, generation = await groups.a_member()
        beat = HeartbeatRequest(group_id=GROUP, member_id=member_id, generation_id=generation)
        assert (await groups.ask(beat, version)).error_code == 0
        beat.generation_id += 1
        assert (await groups.ask(beat, version)).error_code == ErrorCode.ILLEGAL_GENERATION
        beat.member_id = "nobody"
        assert (await groups.ask(beat, version)).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    running(work())


@pytest.mark.parametrize("version", range(6))
def test_members_leave_one_by_one_and_from_v3_on_together(version: int) -> None:
    async def work() -> None:
        groups = Groups()
        await groups.world.lead()
        member_id, _ = await groups.a_member()
        if version < 3:
            answer = await groups.ask(LeaveGroupRequest(group_id=GROUP, member_id="nobody"), version)
            assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
            answer = await groups.ask(LeaveGroupRequest(group_id=GROUP, member_id=member_id), version)
            assert (answer.error_code, answer.members) == (0, [])
        else:
            members = [MemberIdentity(member_id="nobody"), MemberIdentity(member_id=member_id)]
            answer = await groups.ask(LeaveGroupRequest(group_id=GROUP, members=members), version)
            assert answer.error_code == 0
            assert [row.error_code for row in answer.members] == [ErrorCode.UNKNOWN_MEMBER_ID, 0]
        assert groups.world.state_name == "Empty"

    running(work())


def test_a_join_without_read_permission_on_the_group_is_rejected() -> None:
    async def work() -> None:
        groups = Groups(Rules({READ_GROUP}))
        await groups.world.lead()
        joined = await groups.ask(a_join(9), 9)
        requests = [
            (a_join(0), 0),
            (a_join(9), 9),
            (a_sync(joined), 5),
            (HeartbeatRequest(group_id=GROUP), 4),
            (LeaveGroupRequest(group_id=GROUP), 5),
        ]
        for request, version in requests:
            answer = await groups.ask(request, version)
            assert answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert not groups.world.partition.state.groups

    running(work())


@pytest.mark.parametrize("code", NOT_LED)
def test_elsewhere_or_loading_is_reported_with_every_request(code: ErrorCode) -> None:
    async def work() -> None:
        groups = Groups()
        await groups.world.lead()
        joined = await groups.join(9)
        groups.homes.refusal = code
        for request, version in [(a_join(9), 9), (a_sync(joined), 5), (LeaveGroupRequest(group_id=GROUP), 5)]:
            assert (await groups.ask(request, version)).error_code == code
        described = await groups.ask(DescribeGroupsRequest(groups=[GROUP]), 6)
        deleted = await groups.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2)
        assert [row.error_code for row in (*described.groups, *deleted.results)] == [code, code]
        # Members are let be while their group is being loaded.
        beat = await groups.ask(HeartbeatRequest(group_id=GROUP, member_id=joined.member_id), 4)
        assert beat.error_code == (0 if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else code)

    running(work())


def test_before_there_is_an_offsets_topic_this_is_no_coordinator() -> None:
    async def work() -> None:
        groups = Groups()
        groups.homes.is_there = False
        assert (await groups.ask(a_join(9), 9)).error_code == ErrorCode.NOT_COORDINATOR

    running(work())


def test_a_parked_join_is_reported_when_its_coordinator_moves_away() -> None:
    async def work() -> None:
        groups = Groups()
        await groups.world.lead()
        await groups.a_member()
        parked = asyncio.ensure_future(groups.join(9))
        await asyncio.sleep(0.1)
        assert not parked.done()
        groups.world.partition.resign(2)
        assert (await parked).error_code == ErrorCode.NOT_COORDINATOR

    running(work())


def test_a_join_whose_group_is_not_written_in_time_is_refused() -> None:
    """offsets.commit.timeout.ms (5 s) is over before the group's initial delay (10 s)."""

    async def work() -> None:
        groups = Groups(world=World(settings=replace(NO_DELAY, initial_rebalance_delay_ms=10_000)))
        await groups.world.lead()
        groups.world.log.commits_at_once = False
        answer = await groups.ask(a_join(0), 0)
        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    running(work())


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described_with_their_members(version: int) -> None:
    async def work() -> None:
        groups = Groups(Rules({(Operation.DESCRIBE, ResourceType.GROUP, "secret")}))
        await groups.world.lead()
        member_id, _ = await groups.a_member()
        request = DescribeGroupsRequest(groups=["none", GROUP, "secret"])
        if version >= 3:
            request.include_authorized_operations = True
        secret, none, known = (await groups.ask(request, version)).groups
        assert (secret.group_id, secret.error_code) == ("secret", ErrorCode.GROUP_AUTHORIZATION_FAILED)
        assert (none.group_state, none.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
        assert (known.group_state, known.protocol_type, known.protocol_data) == ("Stable", "consumer", "range")
        assert [(each.member_id, each.client_id) for each in known.members] == [(member_id, "app")]
        assert known.members[0].member_assignment == b"mine"
        if version >= 3:
            assert known.authorized_operations & (1 << Operation.READ)
            assert none.authorized_operations == (-(1 << 31) if version >= 6 else known.authorized_operations)

    running(work())


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_by_state_and_type(version: int) -> None:
    async def work() -> None:
        groups = Groups()
        await groups.world.lead()
        await groups.a_member()
        await groups.ask(a_commit(9, ("t", 0, 5)), 9)  # refused: the group has members
        request = a_commit(9, ("t", 0, 5))
        request.group_id = "simple"
        await groups.ask(request, 9)
        listed = (await groups.ask(ListGroupsRequest(), version)).groups
        assert [(row.group_id, row.protocol_type) for row in listed] == [(GROUP, "consumer"), ("simple", "")]
        if version >= 4:
            assert [row.group_state for row in listed] == ["Stable", "Empty"]
            (row,) = (await groups.ask(ListGroupsRequest(states_filter=["empty"]), version)).groups
            assert row.group_id == "simple"
        if version >= 5:
            assert {row.group_type for row in listed} == {"classic"}
            assert not (await groups.ask(ListGroupsRequest(types_filter=["consumer"]), version)).groups

    running(work())


def test_groups_without_describe_permission_are_listed_only_with_cluster_permission() -> None:
    async def work() -> None:
        cluster = (Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
        for refused, count in (({DESCRIBE_GROUP}, 1), ({DESCRIBE_GROUP, cluster}, 0), ({cluster}, 1)):
            groups = Groups(Rules(refused))
            await groups.world.lead()
            await groups.a_member()
            assert len((await groups.ask(ListGroupsRequest(), 5)).groups) == count

    running(work())


def test_a_list_is_complete_or_an_error() -> None:
    async def work() -> None:
        groups = Groups()
        await groups.world.lead()
        await groups.a_member()
        groups.homes.is_loading = True
        answer = await groups.ask(ListGroupsRequest(), 5)
        assert (answer.error_code, answer.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])

    running(work())


@pytest.mark.parametrize("version", range(3))
def test_groups_without_members_are_deleted(version: int) -> None:
    async def work() -> None:
        groups = Groups(Rules({(Operation.DELETE, ResourceType.GROUP, "secret")}))
        await groups.world.lead()
        member_id, _ = await groups.a_member()
        names = [GROUP, "none", "secret", GROUP]
        results = (await groups.ask(DeleteGroupsRequest(groups_names=names), version)).results
        assert [(row.group_id, row.error_code) for row in results] == [
            (GROUP, ErrorCode.NON_EMPTY_GROUP),
            ("none", ErrorCode.GROUP_ID_NOT_FOUND),
            ("secret", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ]
        await groups.ask(LeaveGroupRequest(group_id=GROUP, member_id=member_id), 0)
        (row,) = (await groups.ask(DeleteGroupsRequest(groups_names=[GROUP]), version)).results
        assert row.error_code == 0
        assert not groups.world.partition.committed_state.groups

    running(work())


def test_a_heartbeat_is_answered_synchronously_unless_it_depends_on_uncommitted_records() -> None:
    async def work() -> None:
        groups = Groups()
        await groups.world.lead()
        member_id, generation = await groups.a_member()
        request = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member_id)
        ctx = RequestContext(api_key=ApiKey.HEARTBEAT, api_version=4)
        answer = heartbeat.handle(ctx, request, groups.broker)
        assert isinstance(answer, HeartbeatResponse) and answer.error_code == 0
        groups.world.log.commits_at_once = False
        commit = a_commit(9, ("t", 0, 1), member_id=member_id, generation=generation)
        committing = asyncio.ensure_future(groups.ask(commit, 9))
        await asyncio.sleep(0.05)
        behind = heartbeat.handle(ctx, request, groups.broker)
        assert isinstance(behind, asyncio.Future) and not behind.done()
        groups.world.log.commit()
        assert (await behind).error_code == 0
        await committing

    running(work())
