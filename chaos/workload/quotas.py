"""Client quotas by request (AlterClientQuotas), by this project's own channel: confluent-kafka has no call for them."""

import asyncio
from collections.abc import Mapping
from typing import Final

from kvorum.chaos.faults.observer import in_a_thread
from kvorum.client.quotas import alter_quotas
from kvorum.client.wire.cluster_client import ClusterClient, Unreachable
from kvorum.network.addresses import parse_bootstrap
from kvorum.protocol.errors import KafkaError

RETRY_SECONDS: Final = 0.5
ATTEMPTS: Final = 10


class NotAltered(Exception):
    """Quotas that were rejected, or had no response."""


def alter_quota(bootstrap: str, entity: Mapping[str, str], configs: Mapping[str, str]) -> None:
    """Set quotas of one entity, {type: name or "" for the default}; a value of "" removes one. Raises NotAltered."""
    in_a_thread(lambda: _alter(bootstrap, entity, configs))


async def _alter(bootstrap: str, entity: Mapping[str, str], configs: Mapping[str, str]) -> None:
    named = {kind: name or None for kind, name in entity.items()}
    removed = [key for key, value in configs.items() if not value]
    try:
        values = {key: float(value) for key, value in configs.items() if value}
    except ValueError as error:
        raise NotAltered(f"a quota is a number: {error}") from error
    why: Exception | None = None
    for _ in range(ATTEMPTS):
        # A new one each time: a retry uses connections without a throttle.
        client = ClusterClient(parse_bootstrap(bootstrap), "kvorum-chaos-quotas")
        try:
            await alter_quotas(client, named, values, removed)
            return
        except (Unreachable, KafkaError) as error:
            why = error
        finally:
            await client.close()
        await asyncio.sleep(RETRY_SECONDS)
    raise NotAltered(str(why))
