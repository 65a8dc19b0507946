"""Quotas at the controller: who may change them, hosts among addresses, and how many partitions a client may make."""

import asyncio

import pytest

from kvorum.network.authorizer import AllowAll
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from kvorum.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kvorum.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kvorum.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kvorum.quorum.api.alter_client_quotas import unresolved
from tests.unit.quorum.runtime.runtime_kit import World

WINDOWS_S = 11
"""controller.quota.window.num windows of a second."""


def request(kind: str, name: str | None, key: str, value: float | None) -> AlterClientQuotasRequest:
    entity = RequestEntityData(entity_type=kind, entity_name=name)
    op = OpData(key=key, value=value or 0.0, remove=value is None)
    return AlterClientQuotasRequest(entries=[RequestEntryData(entity=[entity], ops=[op])])


async def alter(world: World, kind: str, name: str | None, key: str, value: float | None) -> ErrorCode:
    (row,) = (await world.ask(request(kind, name, key, value))).entries
    assert [(part.entity_type, part.entity_name) for part in row.entity] == [(kind, name)]
    return ErrorCode(row.error_code)


def test_a_quota_is_answered_once_it_is_committed(world: World) -> None:
    world.elect()
    assert world.run(alter(world, "ip", "10.0.0.1", "connection_creation_rate", 5)) is ErrorCode.NONE
    entities = world.image.client_quotas.sorted_entities()
    assert [(entity, dict(quotas)) for entity, quotas in entities] == [
        ((("ip", "10.0.0.1"),), {"connection_creation_rate": 5.0})
    ]


def test_no_other_than_the_active_controller_changes_quotas(world: World) -> None:
    assert world.run(alter(world, "user", None, "producer_byte_rate", 5)) is ErrorCode.NOT_CONTROLLER


def test_a_request_without_permission_is_an_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.elect()
    monkeypatch.setattr(AllowAll, "authorize", lambda *_: False)
    assert world.run(alter(world, "user", None, "producer_byte_rate", 5)) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert not world.image.client_quotas.entities


def test_hosts_are_looked_up_and_addresses_are_not() -> None:
    names = ["localhost", "10.0.0.1", "::1", "no host of this name", None, ""]
    entries = [
        RequestEntryData(entity=[RequestEntityData(entity_type=kind, entity_name=name)])
        for kind, name in [*(("ip", name) for name in names), ("user", "nobody's host")]
    ]
    assert asyncio.run(unresolved(AlterClientQuotasRequest(entries=entries))) == {"no host of this name"}


def create(name: str, partitions: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)])


def test_a_client_makes_no_more_partitions_than_its_quota_lets_it(world: World) -> None:
    async def go() -> None:
        await world.join(1)
        free = await world.ask(create("free", 100))
        assert (free.topics[0].error_code, free.throttle_time) == (0, 0)
        await alter(world, "user", "ANONYMOUS", "controller_mutation_rate", 1)
        taken = await world.ask(create("a", WINDOWS_S + 5))
        assert (taken.topics[0].error_code, taken.throttle_time) == (0, 0), "whole, though it empties the bucket"
        refused = await world.ask(create("b", 1))
        assert refused.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert refused.throttle_time == 5_000
        held = await world.ask(create("b", 1), version=5)
        assert (held.topics[0].error_code, held.throttle_time) == (0, 6_000), "an older client is only held back"
        gone = await world.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="a")]))
        assert gone.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert gone.throttle_time == 6_000
        await asyncio.sleep(6)
        more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="b", count=3, assignments=None)])
        grown = await world.ask(more)
        assert (grown.results[0].error_code, grown.throttle_time) == (0, 0)
        assert (await world.ask(create("c", 1))).topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        await alter(world, "user", "ANONYMOUS", "controller_mutation_rate", None)
        assert (await world.ask(create("c", 1))).topics[0].error_code == 0

    world.elect()
    world.run(go())
