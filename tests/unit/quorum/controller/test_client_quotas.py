"""AlterClientQuotas, and the mutation quota of what makes and removes partitions."""

import math
from typing import Any

import pytest

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from kvorum.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kvorum.protocol.messages.create_topics import CreateTopicsRequest
from kvorum.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kvorum.quorum.controller import client_quotas
from kvorum.quorum.controller.change_topics import create_partitions, delete_topics
from kvorum.quorum.controller.client_quotas import QuotaAlterations, alter_client_quotas
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.create_topics import create_topics
from tests.unit.quorum.controller.controller_kit import World, creatable

ANN = [("user", "ann")]


def entry(entity: list[tuple[str, str | None]], **ops: float | None) -> RequestEntryData:
    return RequestEntryData(
        entity=[RequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops.items()],
    )


def alter(world: World, *entries: RequestEntryData, validate_only: bool = False, unresolved: Any = ()) -> list[int]:
    """Return the codes, in the order of the entities."""
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    requested = QuotaAlterations(request=request, unresolved=frozenset(unresolved))
    rows = world.do(alter_client_quotas, requested).entries
    assert all((row.error_message is None) == (row.error_code == 0) for row in rows)
    return [row.error_code for row in rows]


def quotas(world: World) -> dict[Any, dict[str, float]]:
    return {entity: dict(values) for entity, values in world.image.client_quotas.sorted_entities()}


def test_quotas_are_set_changed_and_removed() -> None:
    world = World()
    assert alter(world, entry(ANN, producer_byte_rate=1000, request_percentage=12.5)) == [0]
    assert alter(world, entry([("user", None), ("client-id", "app")], consumer_byte_rate=5)) == [0]
    assert quotas(world) == {
        (("client-id", "app"), ("user", None)): {"consumer_byte_rate": 5},
        (("user", "ann"),): {"producer_byte_rate": 1000, "request_percentage": 12.5},
    }
    offset = world.next_offset
    assert alter(world, entry(ANN, producer_byte_rate=1000, consumer_byte_rate=None)) == [0]
    assert world.next_offset == offset, "what is so already is not written"
    assert alter(world, entry(ANN, producer_byte_rate=None, request_percentage=None)) == [0]
    assert list(quotas(world)) == [(("client-id", "app"), ("user", None))]
    assert alter(world) == []


def test_validate_only_changes_nothing() -> None:
    world = World()
    offset = world.next_offset
    bad = entry([("user", "bob")], producer_byte_rate=-1)
    assert alter(world, entry(ANN, producer_byte_rate=1), bad, validate_only=True) == [0, ErrorCode.INVALID_REQUEST]
    assert world.next_offset == offset


@pytest.mark.parametrize(
    "wrong",
    [
        entry([], producer_byte_rate=1),
        entry([("group", "g")], producer_byte_rate=1),
        entry([("user", "")], producer_byte_rate=1),
        entry([("client-id", "")], producer_byte_rate=1),
        entry([("ip", "10.0.0.1"), ("user", "ann")], connection_creation_rate=1),
        entry([("ip", "no.such.host")], connection_creation_rate=1),
        entry([("ip", "10.0.0.1")], producer_byte_rate=1),
        entry([("user", "a" * 32_768)], producer_byte_rate=1),
        entry(ANN, connection_creation_rate=1),
        entry(ANN, who_knows=1),
        entry(ANN, producer_byte_rate=0),
        entry(ANN, producer_byte_rate=-5),
        entry(ANN, producer_byte_rate=1.5),
        entry(ANN, producer_byte_rate=2.0**64),
        entry([("ip", None)], connection_creation_rate=2.0**31),
        entry([("ip", None)], connection_creation_rate=0.5),
        entry(ANN, request_percentage=math.inf),
        entry(ANN, request_percentage=math.nan),
        entry(ANN, producer_byte_rate=math.nan),
    ],
    ids=lambda wrong: (
        f"{[(part.entity_type, part.entity_name and part.entity_name[:9]) for part in wrong.entity]}"
        f"{[(op.key, op.value) for op in wrong.ops]}"
    ),
)
def test_invalid_changes_are_refused_and_the_others_applied(wrong: RequestEntryData) -> None:
    world = World()
    good = entry([("user", "bob")], controller_mutation_rate=0.5)
    assert alter(world, wrong, good, unresolved=["no.such.host"]) == [ErrorCode.INVALID_REQUEST, 0]
    assert quotas(world) == {(("user", "bob"),): {"controller_mutation_rate": 0.5}}


def test_addresses_and_hosts_have_a_connection_rate_only() -> None:
    world = World()
    rates = [entry([("ip", name)], connection_creation_rate=7) for name in ("::1", "localhost", None)]
    assert alter(world, *rates) == [0, 0, 0]
    assert list(quotas(world)) == [(("ip", None),), (("ip", "::1"),), (("ip", "localhost"),)]


def test_duplicate_entities_and_keys_are_refused() -> None:
    world = World()
    twice = RequestEntryData(entity=entry(ANN).entity, ops=[OpData(key="producer_byte_rate", value=1.0)] * 2)
    assert alter(world, twice) == [ErrorCode.INVALID_REQUEST]
    again = entry(ANN, producer_byte_rate=2), entry(ANN, producer_byte_rate=3)
    assert alter(world, *again) == [ErrorCode.INVALID_REQUEST], "answered once"
    assert quotas(world) == {(("user", "ann"),): {"producer_byte_rate": 2}}, "the first counts, as in Kafka"


def test_a_request_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "RECORDS_MAX", 1)
    requested = AlterClientQuotasRequest(entries=[entry(ANN, producer_byte_rate=1, consumer_byte_rate=1)])
    assert World().refused(alter_client_quotas, QuotaAlterations(request=requested)) is ErrorCode.POLICY_VIOLATION


class Allowance:
    """A mutation quota of so many partitions."""

    def __init__(self, left: int) -> None:
        self.left = left

    def record(self, count: int) -> None:
        if count > self.left:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "too much")
        self.left -= count

    def throttle_ms(self) -> int:
        return 0


class Held(World):
    """A world where whoever asks may change so much."""

    allowance: Allowance | None = None

    def context(self) -> Context:
        context = super().context()
        object.__setattr__(context, "mutation_quota", self.allowance)
        return context


def test_partitions_are_counted_where_they_are_made_and_removed_and_refused_one_by_one() -> None:
    world = Held()
    world.start(1)
    world.allowance = Allowance(5)
    wanted = [creatable(name, count, 1) for name, count in (("a", 3), ("b", 4), ("c", 1))]
    rows = world.do(create_topics, CreateTopicsRequest(topics=wanted)).topics
    assert [row.error_code for row in rows] == [0, ErrorCode.THROTTLING_QUOTA_EXCEEDED, 0]
    assert world.allowance.left == 1
    more = [CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in (("a", 5), ("c", 2))]
    results = world.do(create_partitions, CreatePartitionsRequest(topics=more)).results
    assert [row.error_code for row in results] == [ErrorCode.THROTTLING_QUOTA_EXCEEDED, 0]
    assert world.allowance.left == 0
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="a"), DeleteTopicState(name="x")])
    responses = {row.name: row.error_code for row in world.do(delete_topics, gone).responses}
    assert responses == {"a": ErrorCode.THROTTLING_QUOTA_EXCEEDED, "x": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert world.image.topics.topic("a") is not None
    world.allowance = Allowance(3)
    assert [row.error_code for row in world.do(delete_topics, gone).responses] == [0, 3]
    assert world.allowance.left == 0
