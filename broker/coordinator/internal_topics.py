"""The topics of coordinators: created on first use, and checked for configs that lose data.

    create --missing--> too few brokers for the replication factor?  wait until none has registered for SETTLED_MS
                        --> CreateTopics to the active controller --> wait until this broker's metadata has the topic

FindCoordinator and Metadata create them here, and share one attempt. `ensure` waits for it, at most WAIT_MS: the client
gets COORDINATOR_NOT_AVAILABLE, retries, and finds the topic. With fewer registered brokers than the replication factor,
Kafka rejects until there are enough; here the factor is lowered to their number, with a warning, so that a single
broker works. This waits while brokers still register, because the factor is not raised later: nodes that start together
are all registered before the first group exists. A client may create such a topic with CreateTopics or alter it, as in
Kafka, with any configs. Each broker logs a warning with the command that repairs it (internal_topic_check). Source:
Kafka's DefaultAutoTopicCreationManager, GroupCoordinatorService.groupMetadataTopicConfigs,
TransactionStateManager.transactionTopicConfigs, ShareCoordinatorService.shareGroupStateTopicConfigs.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from kvorum.broker.coordinator.internal_topic_check import PREFIXES, InternalTopicCheck
from kvorum.broker.replica.tasks import spawn
from kvorum.protocol import topic_names
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kvorum.protocol.schema import Message
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.publisher import LoaderManifest
from kvorum.runtime.config import Settings
from kvorum.runtime.logs import get_logger

log = get_logger("coordinator")

M = TypeVar("M", bound=Message)

WAIT_MS: Final = 1_000
"""How long a caller waits: a topic takes about 50 ms on an idle cluster, and it delays a client's later responses."""
SETTLED_MS: Final = 2_000
"""With fewer brokers than the replication factor: the wait after the last registration."""


class Controller(Protocol):
    """Takes requests of this broker's own to the active controller (ControllerChannel)."""

    async def ask(self, message: Message, response: type[M], *, timeout_ms: int) -> M:
        """Return the answer. Raises KafkaError."""
        ...


class InternalTopics:
    """Creates internal topics on demand. A metadata publisher."""

    def __init__(
        self, controller: Controller, settings: Callable[[], Settings], image: Callable[[], MetadataImage]
    ) -> None:
        """`settings` and `image` answer those in force."""
        self._controller = controller
        self._settings = settings
        self._image = image
        self._check = InternalTopicCheck(settings)
        self._attempts: dict[str, asyncio.Task[None]] = {}
        self._arrivals: dict[str, asyncio.Event] = {}
        self._brokers_changed = asyncio.Event()

    async def ensure(self, name: str) -> None:
        """Return once this broker's metadata has the topic.

        Raises KafkaError COORDINATOR_NOT_AVAILABLE: not yet, or the controller rejected it; the client retries.
        """
        attempt = self.create(name)
        if attempt is None:
            return
        await asyncio.wait((attempt,), timeout=WAIT_MS / 1000)
        if not self._has(name):
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"topic {name} does not exist yet")

    def create(self, name: str) -> asyncio.Task[None] | None:
        """Start the creation of a topic that does not exist, if none is under way; return the attempt."""
        if self._has(name):
            return None
        attempt = self._attempts.get(name)
        if attempt is None:
            attempt = self._attempts[name] = spawn(f"create-{name}", self._create(name))
            attempt.add_done_callback(lambda _: self._attempts.pop(name))
        return attempt

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest) -> None:
        """See MetadataPublisher: wake waiters for a topic or a broker, check the topics."""
        self._check.update(image)
        for name, arrived in self._arrivals.items():
            if image.topics.topic(name) is not None:
                arrived.set()
        if not delta.cluster_delta.is_empty:
            self._brokers_changed.set()

    async def close(self) -> None:
        """Cancel attempts in progress; their callers receive an error."""
        attempts = tuple(self._attempts.values())
        for attempt in attempts:
            attempt.cancel()
        if attempts:
            await asyncio.wait(attempts)

    def _has(self, name: str) -> bool:
        return self._image().topics.topic(name) is not None

    async def _create(self, name: str) -> None:
        timeout_ms = self._settings().int("request.timeout.ms")
        await self._settle(name)
        topic = internal_topic(name, self._settings())
        there = len(self._image().cluster.brokers)
        if topic.replication_factor > there > 0:
            log.warning(
                "replication factor of internal topic lowered to the number of brokers",
                topic=name,
                wanted=topic.replication_factor,
                brokers=there,
            )
            topic.replication_factor = there
        arrived = self._arrivals[name] = asyncio.Event()
        try:
            request = CreateTopicsRequest(topics=[topic], timeout=timeout_ms)
            response = await self._controller.ask(request, CreateTopicsResponse, timeout_ms=timeout_ms)
            code = ErrorCode(response.topics[0].error_code)
            if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                raise KafkaError(code, response.topics[0].error_message or "")
            if not self._has(name):
                async with asyncio.timeout(timeout_ms / 1000):
                    await arrived.wait()
        except (KafkaError, TimeoutError) as error:
            log.warning("internal topic not created", topic=name, reason=error)
        else:
            log.info("internal topic created", topic=name, replication_factor=topic.replication_factor)
        finally:
            del self._arrivals[name]

    async def _settle(self, name: str) -> None:
        """While there are too few brokers, wait until none has registered for a while."""
        wanted = internal_topic(name, self._settings()).replication_factor
        while len(self._image().cluster.brokers) < wanted:
            self._brokers_changed.clear()
            try:
                async with asyncio.timeout(SETTLED_MS / 1000):
                    await self._brokers_changed.wait()
            except TimeoutError:
                return


def internal_topic(name: str, settings: Settings) -> CreatableTopic:
    """Return an internal topic as the configuration has it."""
    prefix = PREFIXES[name]
    configs = {"segment.bytes": str(settings.int(f"{prefix}.segment.bytes"))}
    match name:
        case topic_names.OFFSETS_TOPIC:
            configs |= {"cleanup.policy": "compact", "compression.type": "producer"}
        case topic_names.TRANSACTION_TOPIC:
            configs |= {"cleanup.policy": "compact", "compression.type": "uncompressed"}
            configs |= {"unclean.leader.election.enable": "false"}
            configs |= {"min.insync.replicas": str(settings.int(f"{prefix}.min.isr"))}
        case _:
            configs |= {"cleanup.policy": "delete", "retention.ms": "-1", "compression.type": "producer"}
            configs |= {"min.insync.replicas": str(settings.int(f"{prefix}.min.isr"))}
    return CreatableTopic(
        name=name,
        num_partitions=settings.int(f"{prefix}.num.partitions"),
        replication_factor=settings.int(f"{prefix}.replication.factor"),
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in sorted(configs.items())],
    )
