"""Quotas of the public API on a cluster in memory."""

import pytest

from kvorum.client import Cluster, KafkaError
from tests.unit.admin.managed import ManagedCluster
from tests.unit.client.kit import with_api


def test_quotas_are_listed_and_altered() -> None:
    async def run(cluster: Cluster, fake: ManagedCluster) -> None:
        quotas = cluster.quotas
        await quotas.alter({"user": "alice"}, {"producer_byte_rate": 5.0})
        await quotas.alter({"user": None}, {"producer_byte_rate": 7.0})
        await quotas.alter({"user": "alice", "client-id": "app"}, {"producer_byte_rate": 9.0})

        async def found(*entity: dict[str, str | None]) -> list[float]:
            return sorted(each.values["producer_byte_rate"] for each in await quotas.list(*entity))

        assert await found() == [5.0, 7.0, 9.0]
        assert await found({"user": "alice"}) == [5.0], "entities of exactly these types"
        assert await found({"user": ""}) == [7.0], "the default"
        assert await found({"user": None}) == [5.0, 7.0], "any name"
        containing = await quotas.list({"user": "alice"}, strict=False)
        assert [dict(each.entity) for each in containing] == [
            {"user": "alice", "client-id": "app"},
            {"user": "alice"},
        ]
        await quotas.alter({"user": "alice"}, remove=["producer_byte_rate"], validate_only=True)
        assert await found({"user": "alice"}) == [5.0], "only validated"
        await quotas.alter({"user": "alice"}, remove=["producer_byte_rate"])
        assert await found({"user": "alice"}) == []
        with pytest.raises(KafkaError, match="INVALID_REQUEST"):
            await quotas.alter({"user": "alice"}, {"unknown": 1.0})

    with_api(run)
