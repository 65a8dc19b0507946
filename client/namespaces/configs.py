"""Configs of topics, brokers, brokers' loggers, groups and client metrics subscriptions."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from kvorum.client.config_changes import config_changes, config_resources
from kvorum.client.values.config import Config, config_value
from kvorum.client.wire.cluster_client import ClusterClient, ResourceType, error_in
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)


class Configs:
    """Configs of a cluster. All methods raise KafkaError and Unreachable."""

    def __init__(self, client: ClusterClient) -> None:
        """Use this client."""
        self._client = client

    async def list(self, kind: ResourceType) -> Sequence[str]:
        """Return the names of the resources of a kind that have own configs (KIP-1142; Kafka 4.1)."""
        return await config_resources(self._client, kind)

    async def describe(self, kind: ResourceType, name: str | int, *, documentation: bool = False) -> Sequence[Config]:
        """Return the configs of a resource, by name; `name` of a broker: its id, or "" for the default of all brokers.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, BROKER_ID_NOT_REGISTERED, ...
        """
        rows = await self._client.describe_configs(kind, str(name), documentation=documentation)
        return sorted(map(config_value, rows), key=lambda config: config.name)

    async def describe_many(
        self, kind: ResourceType, names: Iterable[str | int]
    ) -> dict[str, Sequence[Config] | KafkaError]:
        """Return the configs or the error of each resource, by name; only brokers need one request per resource."""
        wanted = [str(name) for name in names]
        if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
            return dict(zip(wanted, await asyncio.gather(*(self._try(kind, name) for name in wanted)), strict=True))
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
                for name in wanted
            ],
            include_synonyms=True,
        )
        return {
            row.resource_name: error_in(row.error_code, row.error_message)
            or sorted(map(config_value, row.configs), key=lambda config: config.name)
            for row in (await self._client.ask(request, DescribeConfigsResponse)).results
        }

    async def _try(self, kind: ResourceType, name: str) -> Sequence[Config] | KafkaError:
        try:
            return await self.describe(kind, name)
        except KafkaError as error:
            return error

    async def alter(
        self,
        kind: ResourceType,
        name: str | int,
        *,
        set: Mapping[str, str] | None = None,
        delete: Iterable[str] = (),
        append: Mapping[str, str] | None = None,
        subtract: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Set configs of a resource, or reset them to the default (`delete`); others are unchanged.

        `append` and `subtract` add and remove elements of lists, separated by commas. Raises KafkaError
        INVALID_CONFIG; INVALID_REQUEST: there is no change.
        """
        changes = config_changes(set=set, delete=delete, append=append, subtract=subtract)
        await self._client.alter_configs(kind, str(name), changes, validate_only=validate_only)
