"""Cluster, health, brokers' configs, leaders and quorum over HTTP."""

import asyncio

from pydantic import BaseModel

from kvorum.admin.http.commands import Command
from kvorum.admin.http.operations import B, Call, NoBody, Operation, Role
from kvorum.admin.http.parameters import (
    ALL_CONFIGS,
    BROKER_ID,
    DOCUMENTATION,
    VALIDATE_ONLY,
    check_named,
)
from kvorum.admin.http.statuses import status_of
from kvorum.admin.v1.cluster.left_out_configs import left_out_configs
from kvorum.admin.v1.models import (
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
from kvorum.admin.v1.topics.topic_configs import CONFIG_COLUMNS, changes_of, configs_state, entries, list_entries
from kvorum.client.metadata_log.metadata_fetch import offset_of_log
from kvorum.client.namespaces.configs import Configs
from kvorum.client.partitions.min_isr import in_sync
from kvorum.client.partitions.replication import is_under_replicated, reassignments_or_nothing
from kvorum.client.values import quorum
from kvorum.client.wire.cluster_client import LATEST, ClusterClient, ResourceType, Unreachable
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.runtime import config_defs
from kvorum.runtime.logs import get_logger

log = get_logger("admin")

NAMED_PARTITIONS_MAX = 100
ALL_BROKERS = ""
"""The name of what holds for all of them, among the resources of type BROKER."""
UNKNOWN = -1
QUORUM_MS = 1_600
"""Timeout of /v1/quorum, which must respond without a leader."""
QUORUM_SOON_SECONDS = 0.3
"""After this time the leader is slow or missing: a broker is queried for its own state."""
QUORUM_LOCAL_SECONDS = 1.3
CONTROLLER_MS = 5_000
"""Maximum duration of a health check; a broker without a controller waits for one."""


async def get_me(call: Call[NoBody]) -> Me:
    """Return the caller's name and role, and whether this server requires authentication."""
    return Me(name=call.caller, role=call.role.name.lower(), guarded=call.guarded)


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
        reassignments_or_nothing(call.cluster, may_move),
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
    return BROKER_ID.of(call)


async def get_broker_configs(call: Call[NoBody]) -> list[BaseModel]:
    """List a broker's configs with their sources."""
    return await list_entries(call, ResourceType.BROKER, str(broker_id(call)), config_defs.BROKER)


async def alter_broker_configs(call: Call[ConfigAlter]) -> None:
    """Change a broker's dynamic configs."""
    name, only = str(broker_id(call)), VALIDATE_ONLY.of(call)
    await call.cluster.alter_configs(ResourceType.BROKER, name, changes_of(call.body), validate_only=only)


async def get_cluster_configs(call: Call[NoBody]) -> list[BaseModel]:
    """List the dynamic configs of all brokers. A broker's own config overrides them."""
    return entries(await Configs(call.cluster).describe(ResourceType.BROKER, ALL_BROKERS), True)


async def alter_cluster_configs(call: Call[ConfigAlter]) -> None:
    """Change the dynamic configs of all brokers. Configs that only one broker can have (listeners) are rejected."""
    only = VALIDATE_ONLY.of(call)
    await call.cluster.alter_configs(ResourceType.BROKER, ALL_BROKERS, changes_of(call.body), validate_only=only)


def is_unclean(body: Election) -> bool:
    """Return whether the election may lose records: those that only other replicas have."""
    return body.unclean


async def elect_leaders(call: Call[Election]) -> list[BaseModel]:
    """Elect preferred leaders, or any live replica: `unclean` can lose records and requires the role admin."""
    check_named(call.body.partitions, call.body.all)
    wanted = await partitions_of(call.cluster, call.body.partitions)
    return [
        ElectionResult(
            topic=place.topic,
            partition=place.partition,
            error=None if error is None else error.code.name,
            message=None if error is None else error.message,
        )
        for place, error in (await call.cluster.elect_leaders(wanted, unclean=call.body.unclean)).items()
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
            local = asyncio.ensure_future(read_local_quorum(call.cluster))
            await asyncio.wait((pending,), timeout=QUORUM_MS / 1000 - QUORUM_SOON_SECONDS)
        if pending.done():
            try:
                return quorum_of(quorum.quorum_value(pending.result()))
            except (KafkaError, Unreachable) as error:
                if isinstance(error, KafkaError) and status_of(error.code) != 503:
                    raise
                reason = str(error)
        else:
            reason = f"no active controller responded within {QUORUM_MS} ms"
        known = await (read_local_quorum(call.cluster) if local is None else local)
        return known.model_copy(update={"error": f"there is no leader: {reason}"})
    finally:
        pending.cancel()
        if local is not None:
            local.cancel()


async def read_local_quorum(cluster: ClusterClient) -> Quorum:
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


def quorum_of(found: quorum.Quorum) -> Quorum:
    """Return the quorum for HTTP."""
    return Quorum(
        leader_id=found.leader_id,
        leader_epoch=found.leader_epoch,
        high_watermark=found.high_watermark,
        voters=[voter_of(each) for each in found.voters],
        observers=[voter_of(each) for each in found.observers],
    )


def voter_of(found: quorum.QuorumReplica) -> Voter:
    """Return a voter or observer for HTTP."""
    return Voter(
        id=found.node_id,
        directory_id=str(found.directory_id),
        log_end_offset=found.log_end_offset,
        lag=found.lag,
        last_caught_up_ms=UNKNOWN if found.last_caught_up_ms is None else found.last_caught_up_ms,
        last_fetch_ms=UNKNOWN if found.last_fetch_ms is None else found.last_fetch_ms,
        listeners=[QuorumListener(name=each.name, host=each.host, port=each.port) for each in found.listeners],
    )


GET_CONFIGS = Operation.get(
    "/v1/brokers/{broker}/configs",
    "List a broker's configs",
    get_broker_configs,
    ConfigEntry,
    many=True,
    parameters=(BROKER_ID, ALL_CONFIGS, DOCUMENTATION),
    state=configs_state,
    command=Command(
        name="configs describe brokers",
        examples=("1",),
        columns=CONFIG_COLUMNS,
    ),
)
GET_CLUSTER_CONFIGS = Operation.get(
    "/v1/brokers/configs",
    "List the configs of all brokers",
    get_cluster_configs,
    ConfigEntry,
    many=True,
    state=configs_state,
    command=Command(
        name="configs describe cluster",
        examples=("",),
        columns=CONFIG_COLUMNS,
    ),
)
OPERATIONS = [
    Operation.get("/v1/me", "The caller's role", get_me, Me),
    Operation.get("/v1/cluster", "Describe the cluster", get_cluster, Cluster),
    Operation.get("/v1/health", "Health of the cluster", get_health, Health),
    GET_CONFIGS,
    GET_CONFIGS.patch(
        "Change a broker's dynamic configs",
        alter_broker_configs,
        ConfigAlter,
        parameters=(VALIDATE_ONLY,),
        command=Command(
            name="configs alter brokers",
            examples=("1 --set log.cleaner.threads=2",),
            options={"set": "-s --set"},
            done="{broker} changed",
        ),
    ),
    GET_CLUSTER_CONFIGS,
    GET_CLUSTER_CONFIGS.patch(
        "Change the dynamic configs of all brokers",
        alter_cluster_configs,
        ConfigAlter,
        parameters=(VALIDATE_ONLY,),
        command=Command(
            name="configs alter cluster",
            examples=("--set log.retention.ms=3600000",),
            options={"set": "-s --set"},
            done="changed",
        ),
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
        command=Command(
            name="partitions elect-leaders",
            examples=("orders", "orders:0,1 --unclean", "--all"),
            arguments=("partitions",),
            harmless=(ErrorCode.ELECTION_NOT_NEEDED,),
            columns=("topic", "partition", "error", "message?"),
        ),
    ),
    Operation.get(
        "/v1/quorum",
        "Describe the metadata quorum",
        get_quorum,
        Quorum,
        command=Command(name="quorum status", examples=("", "-o json")),
    ),
]
