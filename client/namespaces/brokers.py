"""Brokers of a cluster, their maintenance and decommission."""

from collections.abc import Sequence

from kvorum.client.reassignments import broker_admin_state
from kvorum.client.values.broker import Broker, BrokerState
from kvorum.client.values.cluster import cluster_value
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.protocol.errors import ErrorCode, KafkaError


class Brokers:
    """Brokers of a cluster. All methods raise KafkaError and Unreachable.

    Administrative states are Kvorum's own; other clusters have none (UNSUPPORTED_VERSION).
    """

    def __init__(self, client: ClusterClient) -> None:
        """Use this client."""
        self._client = client

    async def list(self) -> Sequence[Broker]:
        """Return the registered brokers, by id."""
        return cluster_value(await self._client.describe_cluster()).brokers

    async def describe(self, broker_id: int) -> Broker:
        """Return a broker. Raises KafkaError BROKER_ID_NOT_REGISTERED."""
        for each in await self.list():
            if each.id == broker_id:
                return each
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {broker_id}")

    async def states(self) -> Sequence[BrokerState]:
        """Return the administrative states of all registered brokers with their progress, by id."""
        return await broker_admin_state.broker_states(self._client)

    async def state(self, broker_id: int) -> BrokerState:
        """Return the administrative state of a broker. Raises KafkaError BROKER_ID_NOT_REGISTERED."""
        return await broker_admin_state.broker_state(self._client, broker_id)

    async def begin_maintenance(self, broker_id: int) -> None:
        """Move leadership off a broker. Raises KafkaError INVALID_REQUEST: it is being decommissioned."""
        await broker_admin_state.begin_maintenance(self._client, broker_id)

    async def end_maintenance(self, broker_id: int) -> None:
        """End maintenance: preferred leaderships return. Raises KafkaError INVALID_REQUEST: not in maintenance."""
        await broker_admin_state.end_maintenance(self._client, broker_id)

    async def decommission(
        self, broker_id: int, *, throttle_bytes_per_second: int | None = None, validate_only: bool = False
    ) -> None:
        """Move a broker's replicas to other brokers. Returns at once; `state` has the progress.

        Raises KafkaError INVALID_REPLICATION_FACTOR: the other brokers are too few.
        """
        await broker_admin_state.decommission(
            self._client, broker_id, throttle=throttle_bytes_per_second, validate_only=validate_only
        )

    async def recommission(self, broker_id: int) -> None:
        """Cancel a decommission; moved replicas are not moved back. Raises KafkaError INVALID_REQUEST."""
        await broker_admin_state.recommission(self._client, broker_id)

    async def unregister(self, broker_id: int) -> None:
        """Unregister a stopped broker. Raises KafkaError INVALID_REQUEST (Kvorum): not decommissioned, or alive."""
        await broker_admin_state.unregister(self._client, broker_id)
