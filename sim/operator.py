"""An operator of a simulated cluster: executes the changes of a plan's schedule with requests.

Each change is one request to some broker, retried for a while without an answer; the answer is in the story. Invariants
use the *requested* changes: a request without an answer may take effect later.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from kvorum.broker.replica.log_dir_moves import RATE as MOVES_RATE
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from kvorum.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kvorum.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from kvorum.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kvorum.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kvorum.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kvorum.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kvorum.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from kvorum.quorum.controller.broker_admin_state import STATE_KEY
from kvorum.quorum.controller.departure_throttle import FOLLOWERS, LEADERS, RATES
from kvorum.quorum.controller.features import UpgradeType
from kvorum.quorum.image.client_quotas import USER
from kvorum.quorum.image.configs import CLUSTER_DEFAULT, ResourceType
from kvorum.quorum.image.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from kvorum.runtime.config_defs import DECOMMISSION_THROTTLE
from kvorum.security.principal import ANONYMOUS
from sim.changes import ALIVE, HIGH_WATERMARK
from sim.client import PORT, RETRIABLE, RETRY_S, NoAnswer, SimClient
from sim.cluster import TOPIC, SimCluster
from sim.ledger import Violation
from sim.link_faults import Story
from sim.machine import BROKER, address_of
from sim.plan import Fault
from sim.reassignments import CANCEL

TRIES: Final = 8
PARTITIONS_MAX: Final = 6
CLIENT_PREFIX: Final = "operator-"
SET: Final = 0
DELETE: Final = 1
"""IncrementalAlterConfigs' operations."""

Ask = Callable[[SimClient], Awaitable[int]]
"""Sends once and returns the error code. Raises NoAnswer."""


def is_operator(client: str) -> bool:
    """Return whether a client of this name does a request of the operator."""
    return client.startswith(CLIENT_PREFIX)


class Operator:
    """Operator of one run. Each method returns a description of its request, None if there is nothing to change."""

    def __init__(self, cluster: SimCluster) -> None:
        """Store the cluster."""
        self._cluster = cluster
        self._count = 0

    def _start(self, what: str, ask: Ask, targets: list[str]) -> Story:
        self._count += 1
        cluster = self._cluster

        async def work(client: SimClient) -> None:
            outcome = "got no response"
            for _ in range(TRIES):
                try:
                    code = ErrorCode(await ask(client))
                except NoAnswer:
                    await asyncio.sleep(RETRY_S)
                    continue
                outcome = f"got {code.name}"
                if code not in RETRIABLE:
                    break
                await asyncio.sleep(4 * RETRY_S)
            cluster.note(f"the operator's {what}: {outcome}")
            await client.close()

        start: Callable[[SimClient], Coroutine[Any, Any, None]] = work
        cluster.start_client(f"{CLIENT_PREFIX}{self._count}", start)
        return f"the operator requests: {what}", targets, None

    # Configs.

    def min_isr(self, fault: Fault) -> Story | None:
        """Set min.insync.replicas."""
        return self._configure(fault.target, "min.insync.replicas", fault.detail)

    def unclean(self, fault: Fault) -> Story | None:
        """Set unclean.leader.election.enable."""
        return self._configure(fault.target, "unclean.leader.election.enable", fault.detail)

    def topic_config(self, fault: Fault) -> Story | None:
        """Set a config of the topic."""
        key, _, value = fault.detail.partition("=")
        return self._configure("topic", key, value)

    def _configure(self, scope: str, key: str, value: str) -> Story:
        kind, name = (ResourceType.TOPIC, TOPIC) if scope == "topic" else (ResourceType.BROKER, CLUSTER_DEFAULT)
        return self._alter(kind, name, {key: value})

    def _alter(self, kind: ResourceType, name: str, values: dict[str, str]) -> Story:
        """Set configs of a topic, a broker or all brokers; an empty value removes one."""
        configs = [
            AlterableConfig(name=key, config_operation=SET if value else DELETE, value=value or None)
            for key, value in values.items()
        ]
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource])

        async def ask(client: SimClient) -> int:
            return (await client.ask_any(request, IncrementalAlterConfigsResponse)).responses[0].error_code

        whose = "the topic" if kind is ResourceType.TOPIC else f"broker {name}" if name else "all brokers"
        changes = ", ".join(f"{key}={value}" for key, value in values.items())
        return self._start(f"{changes} for {whose}", ask, [])

    def quota(self, fault: Fault) -> Story | None:
        """Set a quota of all clients or of one, of the user that all are, of all addresses or of one; or remove it."""
        key, _, value = fault.detail.partition("=")
        name = ANONYMOUS.name if fault.target == USER else fault.other or None
        entry = RequestEntryData(
            entity=[RequestEntityData(entity_type=fault.target, entity_name=name)],
            ops=[OpData(key=key, value=float(value or 0), remove=not value)],
        )
        request = AlterClientQuotasRequest(entries=[entry])

        async def ask(client: SimClient) -> int:
            return (await client.ask_any(request, AlterClientQuotasResponse)).entries[0].error_code

        return self._start(f"{fault.detail} for {fault.other or 'every'} {fault.target}", ask, [])

    def elr(self, fault: Fault) -> Story | None:
        """Switch eligible leader replicas on or off."""
        level = int(fault.detail)
        kind = UpgradeType.UPGRADE if level else UpgradeType.UNSAFE_DOWNGRADE
        return self._level(ELIGIBLE_LEADER_REPLICAS_VERSION, level, kind)

    def feature(self, fault: Fault) -> Story | None:
        """Change the level of a feature of groups or transactions."""
        level = int(fault.detail)
        upwards = level > self._cluster.metadata.newest.features.level(fault.target)
        return self._level(fault.target, level, UpgradeType.UPGRADE if upwards else UpgradeType.SAFE_DOWNGRADE)

    def _level(self, feature: str, level: int, kind: UpgradeType) -> Story:
        update = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
        request = UpdateFeaturesRequest(feature_updates=[update])

        async def ask(client: SimClient) -> int:
            return (await client.ask_any(request, UpdateFeaturesResponse)).error_code

        return self._start(f"{feature}={level}", ask, [])

    # Partitions.

    def grow(self, fault: Fault) -> Story | None:
        """Add a partition to the topic."""
        topic = self._cluster.metadata.newest.topics.topic(TOPIC)
        count = len(topic.partitions) + 1 if topic is not None else 0
        if topic is None or count > PARTITIONS_MAX:
            return None
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=TOPIC, count=count, assignments=None)], timeout=2_000
        )

        async def ask(client: SimClient) -> int:
            return (await client.ask_any(request, CreatePartitionsResponse)).results[0].error_code

        return self._start(f"{count} partitions of {TOPIC}", ask, [])

    def delete_records(self, fault: Fault) -> Story | None:
        """Delete the records of a partition up to an offset, or up to its high watermark."""
        cluster, number = self._cluster, int(fault.target)
        topic = cluster.metadata.newest.topics.topic(TOPIC)
        ledger = cluster.invariants.ledgers.get((topic.topic_id, number)) if topic is not None else None
        if ledger is None or not ledger.end:
            return None
        starts = ledger.starts
        offset = -1
        if fault.amount != HIGH_WATERMARK:
            offset = starts.highest + round(fault.amount * (ledger.end - starts.highest))
        starts.note_request(offset)
        row = DeleteRecordsPartition(partition_index=number, offset=offset)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=TOPIC, partitions=[row])], timeout=1_500)

        async def ask(client: SimClient) -> int:
            leader = await client.leader(TOPIC, number)
            if leader is None or leader.broker_id < 0:
                client.forget(TOPIC, number)
                raise NoAnswer("no leader is known", maybe_sent=False)
            try:
                response = await client.ask(client.address(leader.broker_id), request, DeleteRecordsResponse)
            finally:
                client.forget(TOPIC, number)
            answer = response.topics[0].partitions[0]
            if answer.error_code == ErrorCode.NONE and answer.low_watermark < offset:
                raise Violation(
                    "DeleteRecordsAnswer",
                    f"records of {ledger.name} below {offset} are deleted, says an answer whose low watermark is "
                    f"{answer.low_watermark}",
                )
            return answer.error_code

        return self._start(f"delete the records of {ledger.name} below {offset}", ask, [])

    def reassign(self, fault: Fault) -> Story | None:
        """Change a partition's replicas, or cancel its reassignment."""
        replicas = None if fault.detail == CANCEL else [int(each) for each in fault.detail.split(",")]
        name, _, number = (fault.target if "-" in fault.target else f"{TOPIC}-{fault.target}").rpartition("-")
        row = ReassignablePartition(partition_index=int(number), replicas=replicas)
        topics = [ReassignableTopic(name=name, partitions=[row])]
        request = AlterPartitionReassignmentsRequest(topics=topics, timeout=2_000)

        async def ask(client: SimClient) -> int:
            response = await client.ask_any(request, AlterPartitionReassignmentsResponse)
            return response.error_code or response.responses[0].partitions[0].error_code

        return self._start(f"{name}-{number} to {fault.detail}", ask, [])

    def move(self, fault: Fault) -> Story | None:
        """Request a log directory for a replica, whatever its broker's answer."""
        node, _, number = fault.target.partition(":")
        topics = [AlterReplicaLogDirTopic(name=TOPIC, partitions=[int(number)])]
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=f"/data-{fault.detail}", topics=topics)])

        async def ask(client: SimClient) -> int:
            address = (address_of(int(node)), PORT)
            response = await client.ask(address, request, AlterReplicaLogDirsResponse)
            return response.results[0].partitions[0].error_code

        return self._start(f"the replica of {TOPIC}-{number} on {node} to directory {fault.detail}", ask, [])

    def move_rate(self, fault: Fault) -> Story | None:
        """Limit the rate at which every broker moves replicas between its log directories, or remove the limit."""
        return self._configure("cluster", MOVES_RATE, fault.detail)

    def replication_rate(self, fault: Fault) -> Story | None:
        """Limit the rate at which throttled replicas are copied between brokers, or remove the limit."""
        return self._alter(ResourceType.BROKER, CLUSTER_DEFAULT, dict.fromkeys(RATES, fault.detail))

    def throttled_replicas(self, fault: Fault) -> Story | None:
        """Mark replicas of the topic as throttled, on both sides, or none."""
        return self._alter(ResourceType.TOPIC, TOPIC, dict.fromkeys((LEADERS, FOLLOWERS), fault.detail))

    def departure_rate(self, fault: Fault) -> Story | None:
        """Bound how fast a broker leaves when it is decommissioned."""
        return self._alter(ResourceType.BROKER, fault.target, {DECOMMISSION_THROTTLE: fault.detail})

    # Brokers.

    def duty(self, fault: Fault) -> Story | None:
        """Request maintenance or decommission of a broker, with a throttle if there is an amount; or revert it."""
        values = {STATE_KEY: fault.detail}
        if fault.amount:
            values[DECOMMISSION_THROTTLE] = str(round(fault.amount))
        return self._alter(ResourceType.BROKER, fault.target, values)

    def unregister(self, fault: Fault) -> Story | None:
        """Forget a broker that is down, or, by mistake, one that runs."""
        machine = self._cluster.machines[int(fault.target)]
        process = machine.processes.get(BROKER)
        if process is None or (process.is_running and fault.detail != ALIVE):
            return None
        self._cluster.invariants.unregistered_brokers.add(machine.node_id)
        request = UnregisterBrokerRequest(broker_id=machine.node_id)

        async def ask(client: SimClient) -> int:
            return (await client.ask_any(request, UnregisterBrokerResponse)).error_code

        return self._start(f"unregister broker {machine.node_id}", ask, [f"node-{machine.node_id}"])
