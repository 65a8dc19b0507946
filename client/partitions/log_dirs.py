"""Contents of the brokers' log directories. Source: Kafka's Admin.describeLogDirs."""

import asyncio
from collections.abc import Sequence

from kvorum.client.wire.cluster_client import ClusterClient, refuse
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)


async def describe_log_dirs(
    cluster: ClusterClient, broker_ids: Sequence[int] = ()
) -> dict[int, list[DescribeLogDirsResult]]:
    """Return the directories of some brokers, or of all. Raises KafkaError BROKER_ID_NOT_REGISTERED, Unreachable."""
    brokers = {broker.node_id: (broker.host, broker.port) for broker in (await cluster.metadata([])).brokers}
    absent = [str(broker_id) for broker_id in broker_ids if broker_id not in brokers]
    if absent:
        there = ",".join(str(broker_id) for broker_id in sorted(brokers))
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {','.join(absent)}; there are {there}"
        )

    wanted = sorted(broker_ids or brokers)
    found = await asyncio.gather(*(log_dirs_at(cluster, brokers[each]) for each in wanted))
    return dict(zip(wanted, found, strict=True))


async def log_dirs_at(
    cluster: ClusterClient,
    address: Address,
    topics: Sequence[DescribableLogDirTopic] | None = None,
    *,
    timeout_ms: int | None = None,
) -> list[DescribeLogDirsResult]:
    """Return one broker's directories, with the replicas of some topics (all, when None). Raises KafkaError."""
    request = DescribeLogDirsRequest(topics=None if topics is None else list(topics))
    answer = await cluster.ask(request, DescribeLogDirsResponse, address, timeout_ms=timeout_ms)
    refuse(answer.error_code, "describe the log directories")
    return answer.results
