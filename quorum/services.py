"""Services of the controller's request handlers, and the nodes that fetch the metadata log."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Final, NamedTuple, TypeVar

from kvorum.network.addresses import Address
from kvorum.network.authorizer import CLUSTER_NAME, Authorizer, MutationQuota, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.network.quotas import ControllerQuotas
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.active import ActiveController
from kvorum.quorum.controller.config_schema import ConfigSchema
from kvorum.quorum.controller.context import LATEST_VERSION, Context, ControllerSettings
from kvorum.quorum.controller.heartbeats import BrokerHeartbeatManager
from kvorum.quorum.controller.result import Result
from kvorum.quorum.credentials import MetadataCredentials
from kvorum.quorum.fencing import FastFencing
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.image.client_quotas import ClientQuotasImage
from kvorum.quorum.metadata_store import MetadataStore
from kvorum.quorum.raft.log import MetadataLog
from kvorum.quorum.raft.membership import Membership
from kvorum.quorum.raft.voters import Endpoints
from kvorum.quorum.steps import Steps
from kvorum.quorum.token_hmacs import TokenHmacs
from kvorum.runtime.clock import Clock
from kvorum.runtime.config import Settings
from kvorum.security.client import ClientSecurity

T = TypeVar("T")
Q = TypeVar("Q")

OBSERVER_SESSION_MS: Final = 300_000
"""An observer that has not fetched for this time is forgotten, as in Kafka's LeaderState."""
OBSERVERS_MAX: Final = 10_000
"""Limit of known brokers; further ones are served but not listed."""
WAIT_MS_MAX: Final = "kvorum.metadata.read.your.writes.max.ms"
ALIVE_MS: Final = 3_000
"""A broker that sent its last heartbeat longer ago is not waited for. One that creates many logs does send them."""
LOOK_MS: Final = 250
"""Interval of liveness checks during a wait."""


@dataclass(slots=True)
class Observer:
    """A broker that follows the metadata log. Times are wall milliseconds."""

    replica_id: int
    directory_id: Uuid
    fetch_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class PublishedWait(NamedTuple):
    """A wait until brokers have published everything below an offset."""

    end_offset: int
    missing: set[int]
    done: asyncio.Future[None]


class Observers:
    """The brokers that fetch from this controller while it leads, those of combined nodes included."""

    __slots__ = ("_observers", "_waits")

    def __init__(self) -> None:
        """Start with none."""
        self._observers: dict[tuple[int, Uuid], Observer] = {}
        self._waits: list[PublishedWait] = []

    def note(self, replica_id: int, directory_id: Uuid, fetch_offset: int, end_offset: int, now_ms: int) -> None:
        """Record a fetch: its offset is the end of that replica."""
        key = (replica_id, directory_id)
        observer = self._observers.get(key)
        if observer is None:
            if len(self._observers) >= OBSERVERS_MAX:
                return
            observer = self._observers[key] = Observer(replica_id, directory_id, fetch_offset, now_ms, -1)
        observer.fetch_offset = fetch_offset
        observer.last_fetch_ms = now_ms
        if fetch_offset >= end_offset:
            observer.last_caught_up_ms = now_ms
        for wait in self._waits:
            if fetch_offset >= wait.end_offset:
                wait.missing.discard(replica_id)
                if not wait.missing and not wait.done.done():
                    wait.done.set_result(None)

    async def wait_published(self, is_alive: Callable[[int], bool], end_offset: int, timeout_ms: int) -> None:
        """Wait until the live brokers have published everything below this offset, which their next fetch shows.

        Returns also after the timeout, and in another term.
        """
        behind = {seen.replica_id for seen in self._observers.values() if seen.fetch_offset < end_offset}
        wait = PublishedWait(end_offset, behind, asyncio.get_running_loop().create_future())
        self._waits.append(wait)
        try:
            while timeout_ms > 0 and not wait.done.done() and any(map(is_alive, wait.missing)):
                await asyncio.wait((wait.done,), timeout=min(timeout_ms, LOOK_MS) / 1000)
                timeout_ms -= LOOK_MS
        finally:
            self._waits.remove(wait)

    def current(self, now_ms: int) -> list[Observer]:
        """Return those that fetched lately, by id."""
        old = [key for key, seen in self._observers.items() if seen.last_fetch_ms + OBSERVER_SESSION_MS < now_ms]
        for key in old:
            del self._observers[key]
        return sorted(self._observers.values(), key=lambda observer: (observer.replica_id, observer.directory_id))

    def clear(self) -> None:
        """Forget all: another term, another leader."""
        self._observers.clear()
        for wait in self._waits:
            if not wait.done.done():
                wait.done.set_result(None)


@dataclass(slots=True, kw_only=True)
class ControllerServices:
    """Services of the request handlers. One per controller process."""

    node_id: int
    cluster_id: str
    settings: Settings
    clock: Clock
    chance: Random
    authorizer: Authorizer
    quotas: ControllerQuotas
    metadata_log: MetadataLog
    store: MetadataStore
    controller: ActiveController
    heartbeats: BrokerHeartbeatManager
    controller_settings: ControllerSettings
    schema: ConfigSchema
    fencing: FastFencing
    token_hmacs: TokenHmacs
    credentials: MetadataCredentials
    """Users and tokens, for the SASL mechanisms of the listeners."""
    observers: Observers
    listener_name: str
    """The name of the controllers' listener, as DescribeQuorum and DescribeCluster give it."""
    security: ClientSecurity
    """Security of connections to other controllers."""
    on_fault: Callable[[BaseException], None]
    """Ends the process after an error that no response can report."""
    voter_addresses: Callable[[str], Mapping[int, Address]]
    """Answers where each controller listens, by node id."""
    membership: Membership | None = None
    """Changes of the voters; None where the log has none to change."""
    voter_endpoints: Callable[[], Endpoints] = Endpoints
    """Answers on which listeners each voter of a dynamic quorum is reached; empty in a static one."""
    quotas_seen: ClientQuotasImage | None = None
    """The image that `quotas` were last computed from."""

    async def submit(
        self,
        ctx: RequestContext | None,
        decide: Callable[[Context, Q], Result[T] | Steps[Result[T]]],
        request: Q,
        *,
        name: str,
        confirm: bool = True,
        mutation_quota: MutationQuota | None = None,
    ) -> T:
        """Decide a request on the active controller; see ActiveController.submit. Raises KafkaError."""
        version = LATEST_VERSION if ctx is None else ctx.api_version
        is_direct = ctx is not None and not ctx.forwarded
        return await self.controller.submit(
            lambda image: decide(self.context(image, version, mutation_quota, is_direct=is_direct), request),
            name=name,
            confirm=confirm,
        )

    async def wait_published(self, timeout_ms: int) -> None:
        """Wait until the active brokers have published the current committed state, so that new partitions are served.

        At most `timeout_ms` and kvorum.metadata.read.your.writes.max.ms. Without this a client's first request often
        reaches a partition's leader before the metadata do (docs/decisions/0026).
        """
        cluster, end_offset = self.store.image.cluster, self.store.end_offset

        def is_alive(broker_id: int) -> bool:
            since_ms = self.clock.monotonic_ms() - self.heartbeats.last_contact_ms(broker_id)
            return cluster.is_active(broker_id) and since_ms <= ALIVE_MS

        await self.observers.wait_published(is_alive, end_offset, min(timeout_ms, self.settings.int(WAIT_MS_MAX)))

    def followers(self) -> list[Observer]:
        """Return the brokers that fetch the metadata log, without controllers: a combined node is one replica."""
        controllers = {replica.node_id for replica in self.metadata_log.replicas()}
        return [each for each in self.observers.current(self.clock.wall_ms()) if each.replica_id not in controllers]

    def context(
        self,
        image: MetadataImage,
        api_version: int = LATEST_VERSION,
        mutation_quota: MutationQuota | None = None,
        *,
        is_direct: bool = False,
    ) -> Context:
        """Return the context of a decision on this image."""
        return Context(
            image=image,
            next_offset=self.controller.next_offset,
            now_ms=self.clock.monotonic_ms(),
            random=self.chance,
            settings=self._settings_now(),
            schema=self.schema,
            heartbeats=self.heartbeats,
            api_version=api_version,
            mutation_quota=mutation_quota,
            is_direct=is_direct,
        )

    def _settings_now(self) -> ControllerSettings:
        """Return the settings with the controllers that there are: a dynamic quorum's come and go."""
        endpoints = self.voter_endpoints()
        if endpoints and endpoints.keys() != self.controller_settings.controller_ids:
            self.controller_settings = replace(self.controller_settings, controller_ids=frozenset(endpoints))
        return self.controller_settings

    def mutation_quota(self, ctx: RequestContext, strict_version: int) -> MutationQuota | None:
        """Return the permitted changes of a request, by the committed quotas; None: no limit.

        From `strict_version` on excess changes are rejected (KIP-599).
        """
        quotas = self.store.image.client_quotas
        if quotas is not self.quotas_seen:
            self.quotas.update(quotas.entities.items())
            self.quotas_seen = quotas
        return self.quotas.mutation_quota(ctx, strict_version)

    def authorize_cluster(self, ctx: RequestContext, operation: Operation) -> None:
        """Raise KafkaError CLUSTER_AUTHORIZATION_FAILED unless the principal may do this to the cluster."""
        if not self.authorizer.authorize(ctx, operation, ResourceType.CLUSTER, CLUSTER_NAME):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{ctx.principal} may not {operation.name}")

    def may(self, ctx: RequestContext, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Return whether the principal is permitted this operation."""
        return self.authorizer.authorize(ctx, operation, resource_type, name)

    def is_serving(self) -> bool:
        """Return whether this node leads, has applied its term's first entry, and a majority responded recently."""
        return self.metadata_log.is_active()

    def leader_and_epoch(self) -> tuple[int, int]:
        """Return the leader (-1: unknown) and the epoch."""
        leader_id = self.metadata_log.leader_id
        return -1 if leader_id is None else leader_id, self.metadata_log.epoch
