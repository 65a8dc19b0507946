"""Cluster, health, brokers' configs, leaders and quorum over HTTP."""

import asyncio
from collections.abc import Mapping

from pydantic import BaseModel

from kvorum.admin.http.operations import B, Call, NoBody, Operation, Role, number_of
from kvorum.admin.http.parameters import LISTED_CONFIGS, VALIDATE_ONLY, check_named
from kvorum.admin.http.problems import status_of
from kvorum.admin.v1.cluster.left_out_configs import left_out_configs
from kvorum.admin.v1.models import (
    INT32_MAX,
    Cluster,
    ConfigAlter,
    ConfigEntry,
    Election,
    ElectionResult,
    Health,
    Me,
    Quorum,
    QuorumListener,
    Voter,
)
from kvorum.admin.v1.partitions.elections import partitions_of
from kvorum.admin.v1.topics.topic_configs import changes_of, configs_state, entries, listed_entries
from kvorum.client.metadata_log.metadata_fetch import offset_of_log
from kvorum.client.partitions.min_isr import in_sync
from kvorum.client.partitions.replication import is_under_replicated, moving_of
from kvorum.client.wire.cluster_client import LATEST, ClusterClient, ResourceType, Unreachable, code_of
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_quorum import DescribeQuorumResponse, ReplicaState
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime import config_defs
from kvorum.runtime.logs import get_logger

log = get_logger("admin")

NAMED_PARTITIONS_MAX = 100
ALL_BROKERS = ""
"""The name of what holds for all of them, among the resources of type BROKER."""
QUORUM_MS = 1_600
"""Timeout of /v1/quorum, which must respond without a leader."""
QUORUM_SOON_SECONDS = 0.3
"""After this time the leader is slow or missing: a broker is queried for its own state."""
QUORUM_LOCAL_SECONDS = 1.3
CONTROLLER_MS = 5_000
"""Maximum duration of a health check; a broker without a controller waits for one."""


async def get_me(call: Call[NoBody]) -> Me:
    """Return the caller's role, and whether this server requires tokens."""
    return Me(role=call.role.name.lower(), guarded=call.guarded)


async def get_cluster(call: Call[NoBody]) -> Cluster:
    """Describe the cluster."""
    described = await call.cluster.describe_cluster()
    metadata = await call.cluster.metadata()
    return Cluster(
        cluster_id=described.cluster_id,
        controller_id=described.controller_id,
        brokers=len(described.brokers),
        brokers_fenced=sum(broker.is_fenced for broker in described.brokers),
        topics=len(metadata.topics),
        partitions=sum(len(topic.partitions) for topic in metadata.topics),
    )


async def get_health(call: Call[NoBody]) -> Health:
    """Return unhealthy partitions, fenced brokers and the active controller.

    Without an active controller nothing can change, and the other figures are the brokers' last state.
    """
    described, metadata, (controller_id, controller_error) = await asyncio.gather(
        call.cluster.describe_cluster(), call.cluster.metadata(), active_controller(call.cluster)
    )
    may_move = metadata.topics if controller_id >= 0 else []  # without a controller they are unknown
    living = [broker.broker_id for broker in described.brokers if not broker.is_fenced]
    moving, counted, left_out = await asyncio.gather(
        moving_of(call.cluster, may_move),
        in_sync(call.cluster, metadata.topics),
        left_out_configs(call.cluster, living),
    )
    too_few = frozenset() if counted is None else counted.under
    wrong: list[tuple[bool, TopicPartition]] = []  # internal topics come last
    under = offline = 0
    for topic in metadata.topics:
        for partition in topic.partitions:
            place = TopicPartition(topic.name or "", partition.partition_index)
            missing = is_under_replicated(partition, moving.get(place))
            under += missing
            offline += partition.leader_id < 0
            if missing or partition.leader_id < 0 or place in too_few:
                wrong.append((topic.is_internal, place))
    fenced = [broker.broker_id for broker in described.brokers if broker.is_fenced]
    return Health(
        healthy=not wrong and not fenced and not left_out and controller_id >= 0,
        under_replicated_partitions=under,
        under_min_isr_partitions=None if counted is None else len(counted.under),
        at_min_isr_partitions=None if counted is None else counted.at,
        offline_partitions=offline,
        brokers_fenced=fenced,
        partitions=[str(place) for _, place in sorted(wrong)[:NAMED_PARTITIONS_MAX]],
        configs_left_out=left_out,
        controller_id=controller_id,
        controller_error=controller_error,
    )


async def active_controller(cluster: ClusterClient) -> tuple[int, str | None]:
    """Return the active controller's id and None; or -1, and why it is unknown."""
    try:
        answer = await cluster.describe_quorum(timeout_ms=CONTROLLER_MS)
    except KafkaError as error:
        return -1, error.code.name
    except Unreachable:
        return -1, "CLUSTER_UNREACHABLE"
    return answer.topics[0].partitions[0].leader_id, None


def broker_id(call: Call[B]) -> int:
    """Read the broker's id in the path. Raises BadInput."""
    return number_of("broker", call.path["broker"], 0, INT32_MAX)


async def get_broker_configs(call: Call[NoBody]) -> list[BaseModel]:
    """List a broker's configs with their sources."""
    return await listed_entries(call, ResourceType.BROKER, str(broker_id(call)), config_defs.BROKER)


async def alter_broker_configs(call: Call[ConfigAlter]) -> None:
    """Change a broker's dynamic configs."""
    name, only = str(broker_id(call)), call.flag("validate_only")
    await call.cluster.alter_configs(ResourceType.BROKER, name, changes_of(call.body), validate_only=only)


async def get_cluster_configs(call: Call[NoBody]) -> list[BaseModel]:
    """List the dynamic configs of all brokers. A broker's own config overrides them."""
    return entries(await call.cluster.describe_configs(ResourceType.BROKER, ALL_BROKERS), True)


async def alter_cluster_configs(call: Call[ConfigAlter]) -> None:
    """Change the dynamic configs of all brokers. Configs that only one broker can have (listeners) are rejected."""
    only = call.flag("validate_only")
    await call.cluster.alter_configs(ResourceType.BROKER, ALL_BROKERS, changes_of(call.body), validate_only=only)


def is_unclean(body: Election) -> bool:
    """Return whether the election may lose records: those that only other replicas have."""
    return body.unclean


async def elect_leaders(call: Call[Election]) -> list[BaseModel]:
    """Elect preferred leaders, or any live replica: `unclean` can lose records and requires the role admin."""
    check_named(call.body.partitions, call.body.all)
    wanted = await partitions_of(call.cluster, call.body.partitions)
    answer = await call.cluster.elect_leaders(wanted, unclean=call.body.unclean)
    return [
        ElectionResult(
            topic=topic.topic,
            partition=result.partition_id,
            error=code_of(result.error_code).name if result.error_code else None,
            message=result.error_message or None,
        )
        for topic in answer.replica_election_results
        for result in topic.partition_result
    ]


async def get_quorum(call: Call[NoBody]) -> Quorum:
    """Describe the metadata quorum, within two seconds.

    Without an active controller `leader_id` is -1 and `error` has the reason. The voters are then those of a broker's
    configuration, and `high_watermark` is the end of its copy of the metadata log.
    """
    pending = asyncio.ensure_future(call.cluster.describe_quorum(timeout_ms=QUORUM_MS))
    local: asyncio.Future[Quorum] | None = None
    try:
        await asyncio.wait((pending,), timeout=QUORUM_SOON_SECONDS)
        if not pending.done():
            local = asyncio.ensure_future(known_locally(call.cluster))
            await asyncio.wait((pending,), timeout=QUORUM_MS / 1000 - QUORUM_SOON_SECONDS)
        if pending.done():
            try:
                return quorum_of(pending.result())
            except (KafkaError, Unreachable) as error:
                if isinstance(error, KafkaError) and status_of(error.code) != 503:
                    raise
                reason = str(error)
        else:
            reason = f"no active controller responded within {QUORUM_MS} ms"
        known = await (known_locally(call.cluster) if local is None else local)
        return known.model_copy(update={"error": f"there is no leader: {reason}"})
    finally:
        pending.cancel()
        if local is not None:
            local.cancel()


async def known_locally(cluster: ClusterClient) -> Quorum:
    """Return a broker's view of the quorum without a controller. Raises Unreachable: no broker responds."""
    found = Quorum(leader_id=-1, leader_epoch=-1, high_watermark=-1, voters=[], observers=[])
    try:
        async with asyncio.timeout(QUORUM_LOCAL_SECONDS):
            brokers = (await cluster.metadata([])).brokers
            found.high_watermark = await offset_of_log(cluster, LATEST)
            configs = await cluster.describe_configs(ResourceType.BROKER, str(brokers[0].node_id))
            values = {each.name: each.value for each in configs}
            found.voters = configured_voters(values.get("controller.quorum.voters") or "")
    except (KafkaError, TimeoutError, IndexError) as error:
        log.info("quorum state not available from broker", error=error)
    return found


def configured_voters(text: str) -> list[Voter]:
    """Return the voters of controller.quorum.voters (ID@HOST:PORT,...), with unknown log ends."""
    voters = []
    for each in text.split(","):
        number, _, address = each.strip().partition("@")
        host, _, port = address.rpartition(":")
        if number.isdecimal() and port.isdecimal():
            listener = QuorumListener(name="", host=host.strip("[]"), port=int(port))
            unknown = dict.fromkeys(("log_end_offset", "lag", "last_caught_up_ms", "last_fetch_ms"), -1)
            voters.append(Voter(id=int(number), directory_id="", listeners=[listener], **unknown))
    return voters


def quorum_of(answer: DescribeQuorumResponse) -> Quorum:
    """Return the leader's answer for HTTP."""
    partition = answer.topics[0].partitions[0]
    end = max([state.log_end_offset for state in partition.current_voters], default=0)

    listeners = {
        node.node_id: [QuorumListener(name=each.name, host=each.host, port=each.port) for each in node.listeners]
        for node in answer.nodes
    }

    def voter(state: ReplicaState, known: Mapping[int, list[QuorumListener]]) -> Voter:
        return Voter(
            id=state.replica_id,
            directory_id=str(state.replica_directory_id),
            log_end_offset=state.log_end_offset,
            lag=max(0, end - state.log_end_offset),
            last_caught_up_ms=state.last_caught_up_timestamp,
            last_fetch_ms=state.last_fetch_timestamp,
            listeners=known.get(state.replica_id, []),
        )

    return Quorum(
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        voters=[voter(state, listeners) for state in partition.current_voters],
        observers=[voter(state, {}) for state in partition.observers],
    )


GET_CONFIGS = Operation.get(
    "/v1/brokers/{broker}/configs",
    "List a broker's configs",
    get_broker_configs,
    ConfigEntry,
    many=True,
    query=LISTED_CONFIGS,
    state=configs_state,
)
GET_CLUSTER_CONFIGS = Operation.get(
    "/v1/brokers/configs",
    "List the configs of all brokers",
    get_cluster_configs,
    ConfigEntry,
    many=True,
    state=configs_state,
)
OPERATIONS = [
    Operation.get("/v1/me", "The caller's role", get_me, Me),
    Operation.get("/v1/cluster", "Describe the cluster", get_cluster, Cluster),
    Operation.get("/v1/health", "Health of the cluster", get_health, Health),
    GET_CONFIGS,
    GET_CONFIGS.patch("Change a broker's dynamic configs", alter_broker_configs, ConfigAlter, query=VALIDATE_ONLY),
    GET_CLUSTER_CONFIGS,
    GET_CLUSTER_CONFIGS.patch(
        "Change the dynamic configs of all brokers", alter_cluster_configs, ConfigAlter, query=VALIDATE_ONLY
    ),
    Operation(
        method="POST",
        path="/v1/leaders/elect",
        summary="Elect leaders",
        handle=elect_leaders,
        role=Role.OPERATE,
        admins=is_unclean,
        body=Election,
        answer=ElectionResult,
        many=True,
        fields={ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "partitions", ErrorCode.INVALID_TOPIC_EXCEPTION: "partitions"},
    ),
    Operation.get("/v1/quorum", "Describe the metadata quorum", get_quorum, Quorum),
]
