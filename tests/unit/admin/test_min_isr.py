"""What the health says of partitions with too few replicas in sync, or with just enough."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kvorum.client.partitions import min_isr
from kvorum.client.wire.cluster_client import Unreachable
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kvorum.protocol.schema import Message
from tests.unit.admin.fake import Client, call, serve
from tests.unit.admin.operated import OWN, TOPIC, OperatedCluster, with_operated

COUNTS = ("under_min_isr_partitions", "at_min_isr_partitions")


def require(cluster: OperatedCluster, topic: str, minimum: int) -> None:
    cluster.layers[TOPIC, topic] = [[("min.insync.replicas", str(minimum), OWN)]]


def asked_about(cluster: OperatedCluster) -> list[list[str]]:
    """Return the topics of each question for configs."""
    found = [each for each in cluster.requested if isinstance(each, DescribeConfigsRequest)]
    assert all(one.configuration_keys == [min_isr.KEY] for each in found for one in each.resources)
    return [[one.resource_name for one in each.resources] for each in found]


async def health(client: Client) -> dict[str, Any]:
    status, found = await call(client, "GET", "/v1/health")
    assert status == 200
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("replicas", "isr", "leader", "minimum", "counted"),
    [
        ([1, 2, 3], [1, 2, 3], 1, 2, (0, 0)),
        ([1, 2, 3], [1, 2, 3], 1, 3, (0, 0)),
        ([1, 2, 3], [1, 2, 3], 1, 4, (0, 0)),
        ([1, 2, 3], [1, 2], 1, 1, (0, 0)),
        ([1, 2, 3], [1, 2], 1, 2, (0, 1)),
        ([1, 2, 3], [1], 1, 2, (1, 0)),
        ([1, 2], [1], 1, 3, (1, 0)),
        ([1], [1], 1, 2, (0, 0)),
        ([1], [1], 1, None, (0, 0)),
        ([1], [1], -1, 1, (1, 0)),
        ([1, 2], [2], -1, 1, (1, 0)),
        ([1, 2], [1], 1, None, (0, 1)),
    ],
    ids=[
        "whole",
        "whole and just enough",
        "whole and fewer than the minimum",
        "more than enough",
        "just enough",
        "too few",
        "too few of all there are",
        "all there are",
        "the only one",
        "no leader",
        "enough but no leader",
        "a cluster that does not say",
    ],
)
def test_partitions_are_held_to_their_topics_minimum(
    replicas: list[int], isr: list[int], leader: int, minimum: int | None, counted: tuple[int, int]
) -> None:
    """At the minimum counts only where there are more replicas than that, unlike Kafka's AtMinIsrPartitionCount."""

    async def test(client: Client, cluster: OperatedCluster) -> None:
        cluster.place("t", replicas)
        cluster.isrs["t", 0], cluster.leaders["t", 0] = isr, leader
        if minimum is not None:
            require(cluster, "t", minimum)
        found = await health(client)
        assert tuple(found[each] for each in COUNTS) == counted
        assert found["healthy"] == (isr == replicas and leader >= 0)

    with_operated(test)


def test_one_that_takes_no_writes_while_it_moves_is_named_though_nothing_is_missing() -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        cluster.place("t", [1])
        cluster.under_way["t", 0] = ([3], [1])
        cluster.replicas["t", 0] = [3, 1]
        assert (await health(client))["healthy"]
        require(cluster, "t", 2)
        found = await health(client)
        assert (found["healthy"], found["under_replicated_partitions"]) == (False, 0)
        assert (found["under_min_isr_partitions"], found["partitions"]) == (1, ["t-0"])

    with_operated(test)


def test_only_topics_with_a_replica_out_of_sync_are_queried_in_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(min_isr, "TOPICS_MAX", 2)

    async def test(client: Client, cluster: OperatedCluster) -> None:
        cluster.place("lone", [1], [2])
        assert (await health(client))["at_min_isr_partitions"] == 0, "one replica is no news"
        assert asked_about(cluster) == []
        for name in ("c", "a", "b", "whole"):
            cluster.place(name, [1, 2], [2, 1])
        for name in ("c", "a", "b"):
            cluster.isrs[name, 1] = [2]
        assert (await health(client))["at_min_isr_partitions"] == 3
        assert asked_about(cluster) == [["a", "b"], ["c"]]

    with_operated(test)


def test_many_topics_do_not_delay_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts that would take too long are null, not 0."""

    async def test(client: Client, cluster: OperatedCluster) -> None:
        cluster.place("t", [1, 2])
        cluster.isrs["t", 0] = [1]
        monkeypatch.setattr(min_isr, "ASK_MS", 0)
        assert [(await health(client))[each] for each in COUNTS] == [None, None]

    with_operated(test)


class Lacking(OperatedCluster):
    """Has trouble with the configs of topics: not reached for them, or an error for one of them."""

    trouble: ErrorCode | None = None

    async def ask(self, request: Message, response: type, address: Address | None = None, **options: Any) -> Any:  # type: ignore[override]
        if not isinstance(request, DescribeConfigsRequest):
            return await super().ask(request, response, address, **options)
        assert 0 < options["timeout_ms"] <= min_isr.ASK_MS, "whoever looks after the health is not kept long"
        if self.trouble is None:
            raise Unreachable("127.0.0.1:1 refused")
        return DescribeConfigsResponse(results=[self.reported(each) for each in request.resources])

    def reported(self, requested: DescribeConfigsResource) -> DescribeConfigsResult:
        result = self._of_resource(1, requested)
        if requested.resource_name == "t":
            result.error_code = self.trouble or 0
        return result


@pytest.mark.parametrize(
    ("trouble", "counted"),
    [
        (None, (None, None)),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, (None, None)),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, (0, 1)),
    ],
    ids=["nobody reached", "not allowed", "deleted meanwhile"],
)
def test_missing_values_are_not_counted_and_the_others_are_reported(
    trouble: ErrorCode | None, counted: tuple[int | None, int | None]
) -> None:
    async def test(client: Client, cluster: Lacking) -> None:
        cluster.trouble = trouble
        for name in ("t", "u"):
            cluster.place(name, [1, 2])
            cluster.isrs[name, 0] = [1]
        found = await health(client)
        assert tuple(found[each] for each in COUNTS) == counted
        assert (found["under_replicated_partitions"], found["partitions"]) == (2, ["t-0", "u-0"])

    with_lacking(test)


def with_lacking(test: Callable[[Client, Lacking], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        cluster = Lacking()
        async with serve(cluster) as client:
            await test(client, cluster)

    asyncio.run(run())
