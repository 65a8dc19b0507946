"""ConsumerGroupHeartbeat, ConsumerGroupDescribe: versions, rights, errors."""

from typing import Any

import pytest

from kvorum.network.authorizer import Operation, ResourceType
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kvorum.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kvorum.quorum.image import MetadataDelta
from kvorum.quorum.image.features import GROUP_VERSION
from kvorum.quorum.records import Feature
from tests.unit.broker.api.api_kit import Rules
from tests.unit.broker.api.group_requests import GROUP, Groups, running

READ_GROUP = (Operation.READ, ResourceType.GROUP, GROUP)
DESCRIBE_GROUP = (Operation.DESCRIBE, ResourceType.GROUP, GROUP)
DESCRIBE_T = (Operation.DESCRIBE, ResourceType.TOPIC, "t")


async def groups_of(*refused: tuple[Operation, ResourceType, str], group_version: int = 1) -> Groups:
    groups = Groups(rules=Rules(set(refused)))
    delta = MetadataDelta(groups.broker.metadata.image)
    delta.replay(Feature(name=GROUP_VERSION, level=group_version))
    groups.broker.metadata.image = groups.world.image = delta.apply(200, 1)
    await groups.world.lead()
    return groups


def a_join(version: int = 1, **values: Any) -> ConsumerGroupHeartbeatRequest:
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="m" if version >= 1 else "",
        rebalance_timeout=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    for name, value in values.items():
        setattr(request, name, value)
    return request


def a_describe(*group_ids: str, operations: bool = False) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(group_ids=list(group_ids) or [GROUP], include_authorized_operations=operations)


@pytest.mark.parametrize("version", [0, 1])
def test_every_version_joins_and_describes(version: int) -> None:
    async def work() -> None:
        groups = await groups_of()
        joined = await groups.ask(a_join(version), version)
        assert (joined.error_code, joined.member_epoch, joined.heartbeat_interval) == (0, 2, 5_000)
        assert [row.partitions for row in joined.assignment.topic_partitions] == [[0, 1]]
        (row,) = (await groups.ask(a_describe(operations=True), version)).groups
        assert (row.group_state, row.assignor_name, row.authorized_operations > 0) == ("Stable", "uniform", True)
        (member,) = row.members
        assert (member.member_id, member.client_id, member.client_host) == (joined.member_id, "app", "/10.0.0.1")
        assert member.member_type == (1 if version >= 1 else -1)

    running(work())


@pytest.mark.parametrize(
    ("refused", "code"),
    [(READ_GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED), (DESCRIBE_T, ErrorCode.TOPIC_AUTHORIZATION_FAILED)],
)
def test_a_join_requires_group_and_topic_permissions(
    refused: tuple[Operation, ResourceType, str], code: ErrorCode
) -> None:
    async def work() -> None:
        groups = await groups_of(refused)
        assert (await groups.ask(a_join(), 1)).error_code == code
        assert GROUP not in groups.world.partition.state.groups

    running(work())


def test_describing_a_group_requires_group_and_topic_permissions() -> None:
    async def work() -> None:
        groups = await groups_of()
        await groups.ask(a_join(), 1)
        groups.rules.refused.add(DESCRIBE_T)
        (row,) = (await groups.ask(a_describe(), 1)).groups
        assert (row.error_code, row.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
        groups.rules.refused.add(DESCRIBE_GROUP)
        first, second, third = (await groups.ask(a_describe("", GROUP, "other"), 1)).groups
        assert (first.group_id, first.error_code) == (GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        assert (second.group_id, second.error_code) == ("", ErrorCode.INVALID_GROUP_ID)
        assert (third.group_id, third.error_code) == ("other", ErrorCode.GROUP_ID_NOT_FOUND)
        assert third.error_message == "Group other not found."

    running(work())


def test_without_the_feature_there_is_no_such_protocol() -> None:
    async def work() -> None:
        groups = await groups_of(group_version=0)
        assert (await groups.ask(a_join(), 1)).error_code == ErrorCode.UNSUPPORTED_VERSION
        (row,) = (await groups.ask(a_describe(), 1)).groups
        assert row.error_code == ErrorCode.UNSUPPORTED_VERSION

    running(work())


def test_errors_have_their_message() -> None:
    async def work() -> None:
        groups = await groups_of()
        answer = await groups.ask(a_join(server_assignor="sticky"), 1)
        assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
        assert answer.error_message == "ServerAssignor sticky is not supported. Supported assignors: uniform, range."
        answer = await groups.ask(a_join(subscribed_topic_names=None, subscribed_topic_regex="("), 1)
        assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION

    running(work())
