"""Operator requests of steps: elections, quotas, moves, reassignments, feature levels, voters of the quorum.

Each is retried for a while if the result may change: a controller has just died, a voter is not connected yet, another
change is in progress. The first attempt may have been executed without an answer, so from the second one on an existing
result counts as success.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from kvorum.chaos.client_access import ClientAccess
from kvorum.chaos.faults.observer import in_a_thread
from kvorum.chaos.workload.recorder import split_partition
from kvorum.client.features import UpgradeType, describe_features, update_features
from kvorum.client.namespaces.log_dirs import LogDirs
from kvorum.client.namespaces.partitions import Partitions
from kvorum.client.namespaces.quotas import Quotas
from kvorum.client.namespaces.reassignments import Reassignments
from kvorum.client.values.log_dir import TopicPartitionReplica
from kvorum.client.voters import add_voter, remove_voter
from kvorum.client.wire.cluster_client import ClusterClient, Unreachable
from kvorum.network.addresses import parse_bootstrap
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.raft.voters import Endpoint

ASK_MS: Final = 4_000
RETRY_SECONDS: Final = 0.3
OPERATE_SECONDS: Final = 30.0
FINAL: Final = frozenset(
    {
        *(ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.UNSUPPORTED_VERSION),
        *(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REQUEST, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    }
)
"""Refusals that no other time changes."""
REACHED: Final = frozenset(
    {ErrorCode.DUPLICATE_VOTER, ErrorCode.VOTER_NOT_FOUND, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
)
"""Errors that mean that the requested state already exists."""

T = TypeVar("T")


class RequestError(Exception):
    """A request failed: the last response."""


def reassign(access: ClientAccess, partition: str, replicas: Sequence[int] | None) -> None:
    """Start a partition's reassignment to these brokers, or (None) cancel it. Raises RequestError."""
    place = TopicPartition(*split_partition(partition))

    async def ask(cluster: ClusterClient) -> None:
        wanted = {place: None if replicas is None else list(replicas)}
        errors = await Reassignments(cluster).alter(wanted, timeout_ms=ASK_MS)
        if place in errors:
            raise errors[place]

    _operate(access, ask)


def active_reassignments(access: ClientAccess) -> set[str]:
    """Return the partitions that are being reassigned ("orders-0"). Raises RequestError without an answer."""

    async def ask(cluster: ClusterClient) -> set[str]:
        return {f"{place.topic}-{place.partition}" for place in await Reassignments(cluster).list()}

    return _operate(access, ask)


def set_levels(access: ClientAccess, levels: Mapping[str, int]) -> None:
    """Put features to these levels, each up or down as it has to. Raises RequestError."""

    async def ask(cluster: ClusterClient) -> None:
        present = {row.name: row.finalized for row in await describe_features(cluster)}
        for kind, up in ((UpgradeType.UPGRADE, True), (UpgradeType.SAFE_DOWNGRADE, False)):
            wanted = {name: to for name, to in levels.items() if to != present.get(name, 0)}
            wanted = {name: to for name, to in wanted.items() if (to > present.get(name, 0)) is up}
            found = await update_features(cluster, wanted, kind) if wanted else {}
            for error in found.values():
                if error is not None:
                    raise error

    _operate(access, ask)


def add_controller(access: ClientAccess, node_id: int, directory_id: Uuid, endpoints: Sequence[Endpoint]) -> None:
    """Make a controller that follows a voter. Raises RequestError."""
    _operate(access, lambda cluster: add_voter(cluster, node_id, directory_id, endpoints))


def remove_controller(access: ClientAccess, node_id: int, directory_id: Uuid) -> None:
    """Make a voter one that follows. Raises RequestError."""
    _operate(access, lambda cluster: remove_voter(cluster, node_id, directory_id))


def elect_leaders(access: ClientAccess, partitions: Sequence[str], *, unclean: bool) -> None:
    """Request elections; an existing leader is not an error. Raises RequestError."""
    wanted = [TopicPartition(*split_partition(name)) for name in partitions]

    async def ask(cluster: ClusterClient) -> None:
        for partition, error in (await Partitions(cluster).elect_leaders(wanted, unclean=unclean)).items():
            if error is not None and error.code is not ErrorCode.ELECTION_NOT_NEEDED:
                raise RequestError(f"{partition}: {error}") from error

    _operate(access, ask)


def alter_quota(access: ClientAccess, entity: Mapping[str, str], configs: Mapping[str, str]) -> None:
    """Set quotas of one entity, {type: name or "" for the default}; a value of "" removes one. Raises RequestError."""
    names = {kind: name or None for kind, name in entity.items()}
    removed = [key for key, value in configs.items() if not value]
    try:
        values = {key: float(value) for key, value in configs.items() if value}
    except ValueError as error:
        raise RequestError(f"a quota is a number: {error}") from error
    _operate(access, lambda cluster: Quotas(cluster).alter(names, values, remove=removed))


def move_replica(access: ClientAccess, partition: str, broker_id: int, path: str) -> None:
    """Request that a broker's replica of a partition moves to a log directory. Raises RequestError."""
    replica = TopicPartitionReplica(*split_partition(partition), broker_id)

    async def ask(cluster: ClusterClient) -> None:
        error = (await LogDirs(cluster).move({replica: path}))[replica]
        if error is not None:
            raise error

    _operate(access, ask)


def _operate(access: ClientAccess, ask: Callable[[ClusterClient], Awaitable[T]]) -> T:
    """Retry until it is done. Raises RequestError."""
    return in_a_thread(lambda: _with_retries(access, ask))


async def _with_retries(access: ClientAccess, ask: Callable[[ClusterClient], Awaitable[T]]) -> T:
    loop, security = asyncio.get_running_loop(), access.security()
    until, again = loop.time() + OPERATE_SECONDS, False
    while True:
        # A new one each time: a retry uses connections without a throttle.
        cluster = ClusterClient(
            parse_bootstrap(access.bootstrap),
            client_id="kvorum-chaos-operator",
            timeout_ms=ASK_MS,
            security=security,
        )
        try:
            return await ask(cluster)
        except (KafkaError, Unreachable) as error:
            code = error.code if isinstance(error, KafkaError) else None
            if again and code in REACHED:
                return None  # type: ignore[return-value]  # what answers with it has nothing to say
            if code in FINAL or loop.time() > until:
                raise RequestError(str(error)) from error
            again = True
        finally:
            await cluster.close()
        await asyncio.sleep(RETRY_SECONDS)
