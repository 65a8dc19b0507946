"""The end of a run with quotas: they are in force on every node, and each kind throttles a client, and ends.

QuotasInForce    every broker, and the active controller, enforces the quotas of the metadata
ThrottleTold     a client over its quota gets a throttle time
ThrottleEnds     its next request, over the same connection, is answered when the throttle is over
MutationQuota    a client that knows the code is rejected while the bucket is empty
ConnectionRate   an address connects no faster than its rate, and no slower than it may

The cluster is idle, without faults. The quotas of the run are removed before the probe.
"""

import asyncio
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any, Final, TypeVar

from kvorum.network.channel import Channel
from kvorum.network.context import RequestContext
from kvorum.network.dial import ChannelError
from kvorum.network.ip_rates import CONNECTION_CREATION_RATE
from kvorum.network.quota_entities import CLIENT_ID, IP, Entity, QuotaTable
from kvorum.network.quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    ClientQuotas,
)
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from kvorum.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kvorum.protocol.schema import Message
from kvorum.security.principal import ANONYMOUS
from sim.client import PORT, NoAnswer, SimClient
from sim.cluster import SimCluster
from sim.ledger import Violation
from sim.machine import BROKER, SimProcess, address_of

M = TypeVar("M", bound=Message)

NAME: Final = "quota-probe"
LIMIT_S: Final = 120.0
LATE_S: Final = 1.0
"""Permitted delay of an answer after the end of a throttle: the slowest of links, there and back."""
FIRST_S: Final = 1.0
"""The longest throttle of a share of time: only the new connection's creator gets its first answer."""
REQUESTS: Final = 4
RATE: Final = 2.0
"""Changes, or connections, per second."""
SAVED: Final = 22
"""Changes that are saved up at that rate: quotas are measured over eleven seconds here."""
PERMISSIVE: Final = 5
"""CreateTopics' newest version without THROTTLING_QUOTA_EXCEEDED."""
CONNECTIONS: Final = 26
CONNECTIONS_LIMIT_S: Final = 20.0


def look_at_quotas(cluster: SimCluster) -> None:
    """Check that they are in force, remove them, and try each kind. Raises Violation."""
    check_in_force(cluster)
    done: list[bool] = []

    async def work(client: SimClient) -> None:
        await Probe(cluster, client).run()
        await client.close()
        done.append(True)

    cluster.start_client(NAME, work)
    if not cluster.run_until(lambda: bool(done), LIMIT_S):
        raise Violation("ThrottleEnds", f"the probe of quotas has not finished within {LIMIT_S:g} s")


def check_in_force(cluster: SimCluster) -> None:
    """Compare the quotas of brokers and the active controller with the metadata. Raises Violation."""
    quotas = cluster.metadata.newest.client_quotas
    entities = quotas.sorted_entities()
    names = [*cluster.clients, "somebody"]

    def wrong(process: SimProcess, what: str, found: object, expected: object) -> Violation:
        return Violation("QuotasInForce", f"{process.name}: {what} is {found}, {expected} by the metadata")

    for process in cluster.processes:
        if process.broker is not None and process.broker.parts is not None:
            publisher = process.broker.parts.quota_publisher
            held = publisher.quotas
            kinds = {PRODUCER_BYTE_RATE: held.produce, CONSUMER_BYTE_RATE: held.fetch, REQUEST_PERCENTAGE: held.request}
            rates = publisher.ip_rates
            default, limits = limits_of(entities)
            if (rates.default, dict(rates.limits)) != (default, limits):
                raise wrong(process, CONNECTION_CREATION_RATE, (rates.default, dict(rates.limits)), (default, limits))
            found = {key: {name: bound_of(kind, name) for name in names} for key, kind in kinds.items()}
        elif process.controller is not None and process.controller.metadata_log.is_active():
            services = process.controller.server.services
            services.mutation_quota(RequestContext(), 0)  # it applies the committed quotas on use
            mutation = services.quotas.mutation
            found = {CONTROLLER_MUTATION_RATE: {name: bound_of(mutation, name) for name in names}}
        else:
            continue
        for key, by_name in found.items():
            table = QuotaTable(key, entities)
            for name, bound in by_name.items():
                expected = table.bound(table.scope(ANONYMOUS.name, name))
                if bound != expected:
                    raise wrong(process, f"{key} of {name}", bound, expected)


def bound_of(quotas: ClientQuotas[Any], name: str) -> float | None:
    """Return a client's quota."""
    meter = quotas.meter(RequestContext(client_id=name))
    return None if meter is None else meter.bound


def limits_of(entities: Iterable[tuple[Entity, Mapping[str, float]]]) -> tuple[float | None, dict[str, float]]:
    """Return the connection rate of all addresses, and the addresses with their own rate."""
    default: float | None = None
    limits: dict[str, float] = {}
    for entity, values in entities:
        names, value = dict(entity), values.get(CONNECTION_CREATION_RATE)
        if IP not in names or value is None:
            continue
        name = names[IP]
        if name is None:
            default = value
        else:
            limits[name] = value
    return default, limits


class Probe:
    """The client that is held back."""

    def __init__(self, cluster: SimCluster, client: SimClient) -> None:
        """Be that client."""
        self._cluster = cluster
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._addresses = [
            (address_of(process.machine.node_id), PORT) for process in cluster.processes if process.role == BROKER
        ]

    async def run(self) -> None:
        """Try all kinds. Raises Violation."""
        for entity, quotas in self._cluster.metadata.newest.client_quotas.sorted_entities():
            for key in sorted(quotas):  # a map whose order is that of hashes
                await self._alter(dict(entity), key, None)
        await self._everywhere()
        if self._cluster.options.request_cost_ms:
            await self._time()
        await self._changes()
        await self._connections()

    # Quotas.

    async def _alter(self, entity: dict[str, str | None], key: str, value: float | None) -> None:
        """Set a quota, or remove it."""
        parts = [RequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
        op = OpData(key=key, value=value or 0.0, remove=value is None)
        request = AlterClientQuotasRequest(entries=[RequestEntryData(entity=parts, ops=[op])])
        while True:
            try:
                response = await self._client.ask_any(request, AlterClientQuotasResponse)
            except NoAnswer:  # it may be held back itself, for longer than it waits: over another connection it is not
                continue
            if response.entries[0].error_code == ErrorCode.NONE:
                return
            await asyncio.sleep(0.1)

    async def _everywhere(self) -> None:
        """Wait until every node has applied them."""
        cluster = self._cluster
        brokers = [process.broker.broker for process in cluster.processes if process.broker is not None]
        while True:
            newest = cluster.metadata.newest.client_quotas
            if all(broker.metadata.image.client_quotas.entities == newest.entities for broker in brokers):
                return
            await asyncio.sleep(0.05)

    # Kinds.

    async def _time(self) -> None:
        """A request costs five seconds' worth of its share: two are free, the others wait for a window each."""
        share = self._cluster.options.request_cost_ms / 50
        await self._alter({CLIENT_ID: NAME}, REQUEST_PERCENTAGE, share)
        await self._everywhere()
        for address in self._addresses:
            throttles_ms = [await self._ask_in_time(address) for _ in range(REQUESTS)]
            if not any(throttles_ms):
                raise Violation("ThrottleTold", f"{REQUESTS} requests of {share} % at {address[0]}, and no throttle")
        await self._alter({CLIENT_ID: NAME}, REQUEST_PERCENTAGE, None)
        await self._everywhere()

    async def _ask_in_time(self, address: tuple[str, int]) -> int:
        """Send any request; return the throttle time of the answer, in ms."""
        return (await self._answer(address, MetadataRequest(topics=[]), MetadataResponse)).throttle_time

    async def _answer(
        self, address: tuple[str, int], request: Message, response: type[M], newest: int | None = None
    ) -> M:
        """Send over the present connection; it answers when it may, and soon then. Raises Violation."""
        requested_s, connection = self._loop.time(), self._client.channel(address).connection
        held_s = max(0.0, self._cluster.throttles.until_s(connection) - requested_s) if connection else FIRST_S
        prefix = f"{address[0]}, asked {type(request).__name__} while it throttled for {held_s:.3f} s,"
        try:
            answer = await self._client.ask(address, request, response, newest=newest)
        except NoAnswer as error:
            raise Violation("ThrottleEnds", f"{prefix} does not respond: {error}") from None
        took_s = self._loop.time() - requested_s
        if took_s > held_s + LATE_S:
            raise Violation("ThrottleEnds", f"{prefix} answered after {took_s:.3f} s")
        return answer

    async def _changes(self) -> None:
        """Try topics (they are not made): an older client is held back, a newer one refused meanwhile."""
        await self._alter({CLIENT_ID: NAME}, CONTROLLER_MUTATION_RATE, RATE)
        await self._everywhere()
        count = SAVED + 2
        for address in self._addresses:
            throttle_ms = await self._try_topic(address, count, PERMISSIVE, ErrorCode.NONE)
            if not throttle_ms:
                raise Violation(
                    "ThrottleTold", f"{count} partitions at {address[0]}, {SAVED} are saved up: no throttle"
                )
            other = self._addresses[self._addresses.index(address) - 1]
            if other != address:
                await self._try_topic(other, 1, None, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            await self._ask_in_time(address)
            count = 4
            await asyncio.sleep(1.0)
        await self._alter({CLIENT_ID: NAME}, CONTROLLER_MUTATION_RATE, None)
        await self._everywhere()

    async def _try_topic(self, address: tuple[str, int], count: int, newest: int | None, expected: ErrorCode) -> int:
        """Validate the creation of a topic; return the throttle time of the response."""
        topic = CreatableTopic(name="probed", num_partitions=count, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout=2_000, validate_only=True)
        response = await self._answer(address, request, CreateTopicsResponse, newest)
        code = ErrorCode(response.topics[0].error_code)
        if code is not expected:
            raise Violation("MutationQuota", f"{count} partitions at {address[0]}: {code.name}, not {expected.name}")
        return response.throttle_time

    async def _connections(self) -> None:
        """Connect as often and as fast as it goes."""
        host = self._cluster.clients[NAME].name.partition("/")[0]
        await self._alter({IP: host}, CONNECTION_CREATION_RATE, RATE)
        await self._everywhere()
        began_s, count = self._loop.time(), 0
        while count < CONNECTIONS:
            count += await connects(self._addresses[0], self._client.rng)
            elapsed_s = self._loop.time() - began_s
            if count > RATE * (elapsed_s + 11) + 1:
                raise Violation("ConnectionRate", f"{count} connections in {elapsed_s:.3f} s at {RATE:g} per second")
            if elapsed_s > CONNECTIONS_LIMIT_S:
                raise Violation("ConnectionRate", f"only {count} connections in {elapsed_s:.3f} s")
        await self._alter({IP: host}, CONNECTION_CREATION_RATE, None)


async def connects(address: tuple[str, int], rng: Random) -> bool:
    """Open a connection, get a response, and close it; return whether that succeeded."""
    channel = Channel(*address, client_id=NAME, chance=rng, setup_timeout_ms=1_500)
    try:
        await channel.connect()
    except ChannelError:
        return False
    finally:
        await channel.close()
    return True
