"""Configs that are stored and not in force, as brokers' DescribeConfigs tells them."""

import asyncio
from typing import Any

import pytest

from kvorum.admin.v1.cluster.left_out_configs import left_out_configs
from kvorum.client.wire.cluster_client import ResourceType
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kvorum.protocol.messages.list_config_resources import ConfigResource, ListConfigResourcesResponse

OWN, COMMON, FILE = 2, 3, 4


def config(name: str, value: str, *synonyms: tuple[str, int]) -> DescribeConfigsResourceResult:
    found = [DescribeConfigsSynonym(name=name, value=text, source=source) for text, source in synonyms]
    return DescribeConfigsResourceResult(name=name, value=value, synonyms=found)


class Cluster:
    """Two brokers, of which the second has configs of its own."""

    def __init__(self, **rows: list[DescribeConfigsResourceResult]) -> None:
        self.rows = rows
        self.requested: list[tuple[str, list[str] | None]] = []

    async def describe_configs(self, kind: ResourceType, name: str, **_: object) -> list[DescribeConfigsResourceResult]:
        return self.rows["common"]

    async def broker_address(self, broker_id: int) -> tuple[str, int]:
        if f"broker{broker_id}" not in self.rows:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, "gone")
        return ("127.0.0.1", broker_id)

    async def ask(self, request: Any, response: Any, address: Any = None, **_: object) -> Any:
        if not isinstance(request, DescribeConfigsRequest):
            names = ["2"] + ([""] if self.rows["common"] else [])
            return ListConfigResourcesResponse(
                config_resources=[ConfigResource(resource_name=name, resource_type=4) for name in names]
            )
        (wanted,) = request.resources
        self.requested.append((wanted.resource_name, wanted.configuration_keys))
        return DescribeConfigsResponse(results=[DescribeConfigsResult(configs=self.rows[f"broker{address[1]}"])])


KEY = "max.connections.per.ip.overrides"


@pytest.mark.parametrize(
    ("row", "reported"),
    [
        (config(KEY, "", ("1:5x", COMMON)), [f"broker 1: {KEY}=1:5x"]),
        (config("log.cleaner.threads", "1", ("1000", COMMON), ("1", 5)), ["broker 1: log.cleaner.threads=1000"]),
        (config("log.cleaner.threads", "7", (" 7 ", COMMON)), []),
        (config("log.cleanup.policy", "compact,delete", ("compact, delete", COMMON)), []),
        (config("log.cleaner.threads", "2", ("2", FILE)), []),
    ],
)
def test_a_stored_value_that_is_not_in_force_is_named(row: DescribeConfigsResourceResult, reported: list[str]) -> None:
    cluster: Any = Cluster(common=[row], broker1=[row], broker2=[])
    assert asyncio.run(left_out_configs(cluster, [1, 2])) == reported
    assert sorted(cluster.requested) == [("1", [row.name]), ("2", None)], "only of its own all keys are asked about"


def test_without_a_brokers_report_the_value_is_unknown() -> None:
    cluster: Any = Cluster(common=[], broker1=[])
    assert asyncio.run(left_out_configs(cluster, [1])) == []
    assert asyncio.run(left_out_configs(cluster, [1, 2])) is None
