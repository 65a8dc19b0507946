"""Brokers over HTTP: their Metadata, registration and process state."""

import asyncio
from collections import Counter
from typing import Final, NamedTuple

from pydantic import BaseModel

from kvorum.admin.http.access import HttpError
from kvorum.admin.http.operations import Call, NoBody, Operation
from kvorum.admin.http.parameters import BROKER_ID
from kvorum.admin.v1.cluster.broker_models import Broker, RegisteredLogDir
from kvorum.admin.v1.cluster.cluster_routes import broker_id
from kvorum.admin.v1.cluster.node_models import NodeProcess
from kvorum.admin.v1.cluster.node_pages import BROKER, RoleProcess, pages_of
from kvorum.client.metadata_log.metadata_image import LogSizeError, MetadataProblem
from kvorum.client.metadata_log.metadata_reader import MetadataReader
from kvorum.client.wire.cluster_client import ClusterClient, Unreachable
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_cluster import DescribeClusterBroker
from kvorum.protocol.messages.metadata import MetadataResponse
from kvorum.quorum.image.cluster import BrokerRegistration

LIST_SECONDS: Final = 1.5
"""Timeout of the list for brokers' processes, which are all queried at once."""
ONE_SECONDS: Final = 10.0
"""Timeout of a single broker's page for its process."""
REGISTERED_SECONDS: Final = 5.0
"""Timeout of both for the metadata log; the first request fetches all of it."""

Registered = dict[int, BrokerRegistration]


class MissingReason(NamedTuple):
    """Why a value is unknown: the name of an error, and a message."""

    error: str
    message: str


class Registration(NamedTuple):
    """Fields of Broker from the metadata log."""

    epoch: int | None = None
    incarnation_id: str | None = None
    in_controlled_shutdown: bool | None = None
    log_dirs: list[RegisteredLogDir] | None = None
    registration_error: str | None = None


class ProcessFields(NamedTuple):
    """Fields of Broker from its process."""

    version: str | None = None
    started_ms: int | None = None
    uptime_ms: int | None = None
    process_error: str | None = None
    process_message: str | None = None


class BrokerRoutes:
    """The paths of one server, which share a copy of the metadata log."""

    def __init__(self, reader: MetadataReader) -> None:
        """Read registrations with this reader."""
        self._reader = reader

    async def list_brokers(self, call: Call[NoBody]) -> list[BaseModel]:
        """List the registered brokers. Fields that a process does not return within 1.5 s are null, with the reason."""
        described = await call.cluster.describe_cluster()
        return [*await self._describe_each(call, described.brokers, LIST_SECONDS)]

    async def get_broker(self, call: Call[NoBody]) -> Broker:
        """Return one broker. Fields that are not available are null, with the reason."""
        wanted = broker_id(call)
        described = await call.cluster.describe_cluster()
        named = [broker for broker in described.brokers if broker.broker_id == wanted]
        if not named:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {wanted}")
        return (await self._describe_each(call, named, ONE_SECONDS))[0]

    async def _describe_each(
        self, call: Call[NoBody], brokers: list[DescribeClusterBroker], seconds: float
    ) -> list[Broker]:
        """Return brokers by id; each process is waited for no longer than that."""
        ordered = sorted(brokers, key=lambda broker: broker.broker_id)
        metadata, registered, processes = await asyncio.gather(
            call.cluster.metadata(),
            self._read_registrations(call.cluster),
            asyncio.gather(*(process_of(call, broker, seconds) for broker in ordered)),
        )
        leaders, replicas = holdings(metadata)
        return [
            Broker(
                id=broker.broker_id,
                host=broker.host,
                port=broker.port,
                rack=broker.rack,
                fenced=broker.is_fenced,
                leaders=leaders[broker.broker_id],
                replicas=replicas[broker.broker_id],
                **registration_of(registered, broker.broker_id)._asdict(),
                **life_of(process)._asdict(),
            )
            for broker, process in zip(ordered, processes, strict=True)
        ]

    async def _read_registrations(self, cluster: ClusterClient) -> Registered | MissingReason:
        try:
            async with asyncio.timeout(REGISTERED_SECONDS):
                return await self._reader.brokers(cluster)
        except TimeoutError:
            return MissingReason("REQUEST_TIMED_OUT", f"the metadata log was not read within {REGISTERED_SECONDS:g} s")
        except LogSizeError as error:
            return MissingReason("METADATA_TOO_LARGE", str(error))
        except MetadataProblem as error:
            return MissingReason("METADATA_UNREADABLE", str(error))
        except (KafkaError, Unreachable) as error:
            return missing_reason_of(error)

    def operations(self) -> list[Operation]:
        """Return the paths."""
        return [
            Operation.get("/v1/brokers", "List brokers", self.list_brokers, Broker, many=True),
            Operation.get("/v1/brokers/{broker}", "Get a broker", self.get_broker, Broker, parameters=(BROKER_ID,)),
        ]


async def process_of(call: Call[NoBody], broker: DescribeClusterBroker, seconds: float) -> NodeProcess | MissingReason:
    """Return a broker's process state, or why it is not available."""
    who, address = RoleProcess(BROKER, broker.broker_id), (broker.host, broker.port)
    try:
        async with asyncio.timeout(seconds), pages_of(call.cluster, who, call.nodes, address) as pages:
            assert pages.process is not None, "it has said who it is"
            return pages.process
    except TimeoutError:
        return MissingReason("NODE_UNREACHABLE", f"{who} did not respond within {seconds:g} s")
    except (HttpError, KafkaError, Unreachable) as error:
        return missing_reason_of(error)


def missing_reason_of(error: Exception) -> MissingReason:
    """Return the reason why a value is unknown, from the exception of its query."""
    match error:
        case HttpError():
            return MissingReason(error.error, error.message)
        case KafkaError():
            return MissingReason(error.code.name, error.message or error.code.name)
        case _:
            return MissingReason("CLUSTER_UNREACHABLE", str(error))


def registration_of(registered: Registered | MissingReason, wanted: int) -> Registration:
    """Return a broker's registration, or why it is not available."""
    found = registered.get(wanted) if isinstance(registered, dict) else None
    if found is None:
        # A broker that has just registered may be missing in the part of the log that was read.
        error = registered.error if isinstance(registered, MissingReason) else ErrorCode.BROKER_ID_NOT_REGISTERED.name
        return Registration(registration_error=error)
    cordoned = found.cordoned_log_dirs or ()
    log_dirs = [
        RegisteredLogDir(id=str(each), online=each in found.log_dirs, cordoned=each in cordoned)
        for each in (*found.log_dirs, *found.failed_log_dirs)
    ]
    return Registration(
        epoch=found.broker_epoch,
        incarnation_id=str(found.incarnation_id),
        in_controlled_shutdown=found.in_controlled_shutdown,
        log_dirs=log_dirs,
    )


def life_of(process: NodeProcess | MissingReason) -> ProcessFields:
    """Return a process's state, or why it is not available."""
    if isinstance(process, MissingReason):
        return ProcessFields(process_error=process.error, process_message=process.message)
    return ProcessFields(version=process.version, started_ms=process.started_ms, uptime_ms=process.uptime_ms)


def holdings(metadata: MetadataResponse) -> tuple[Counter[int], Counter[int]]:
    """Count the partitions each broker leads, and those it has a replica of."""
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    for topic in metadata.topics:
        for partition in topic.partitions:
            leaders[partition.leader_id] += 1
            replicas.update(partition.replica_nodes)
    return leaders, replicas
