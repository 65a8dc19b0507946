"""Topics created because a Metadata request names them (auto.create.topics.enable).

The client gets UNKNOWN_TOPIC_OR_PARTITION and retries, as it does anyway while a topic spreads. Meanwhile CreateTopics
goes to the controller with the client's principal. One request per topic is in flight at a time. Internal topics are
created with their own configuration (coordinator/internal_topics), never as plain topics. Source: Kafka's
DefaultAutoTopicCreationManager.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from kvorum.network.context import RequestContext
from kvorum.protocol.api import BROKER_APIS, ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kvorum.protocol.topic_names import INTERNAL_TOPICS, name_problem
from kvorum.quorum.forwarder import Forwarder
from kvorum.runtime.config import Settings
from kvorum.runtime.logs import get_logger
from kvorum.runtime.ordered_set import OrderedSet

log = get_logger("broker")

IN_FLIGHT_MAX: Final = 1_000
"""Limit of topics in creation; a further one is not created until its client retries."""


class AutoTopicCreation:
    """Sends CreateTopics for topics that are missing."""

    __slots__ = ("_controller", "_create_internal", "_in_flight", "_settings", "_tasks")

    def __init__(
        self, controller: Forwarder, settings: Callable[[], Settings], create_internal: Callable[[str], object]
    ) -> None:
        """`settings` returns those in force; `create_internal` starts the creation of an internal topic."""
        self._controller = controller
        self._create_internal = create_internal
        self._settings = settings
        self._in_flight: set[str] = set()
        self._tasks: OrderedSet[asyncio.Task[None]] = OrderedSet()

    def create(self, ctx: RequestContext, names: Iterable[str]) -> dict[str, ErrorCode]:
        """Start the creation of these topics; return each one's code: UNKNOWN_TOPIC_OR_PARTITION, or invalid."""
        answers: dict[str, ErrorCode] = {}
        wanted: list[str] = []
        for name in names:
            valid = name_problem(name) is None
            answers[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION
            if name in INTERNAL_TOPICS:
                self._create_internal(name)
            elif valid and name not in self._in_flight and len(self._in_flight) < IN_FLIGHT_MAX:
                self._in_flight.add(name)
                wanted.append(name)
        if wanted:
            task = asyncio.get_running_loop().create_task(self._create(ctx, wanted))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return answers

    async def close(self) -> None:
        """Stop sending requests."""
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def _create(self, ctx: RequestContext, names: list[str]) -> None:
        settings = self._settings()
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=settings.int("num.partitions"),
                    replication_factor=settings.int("default.replication.factor"),
                )
                for name in names
            ],
            timeout=settings.int("request.timeout.ms"),
        )
        try:
            response = await self._controller.forward(as_create_topics(ctx), request)
            assert isinstance(response, CreateTopicsResponse), response
        except KafkaError as error:
            log.warning("topics not created on demand", topics=",".join(names), reason=error)
            return
        finally:
            self._in_flight.difference_update(names)
        for topic in response.topics:
            code = ErrorCode(topic.error_code)
            if code is ErrorCode.NONE:
                log.info("topic created on demand", topic=topic.name)
            elif code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                log.warning("topic not created on demand", topic=topic.name, code=code.name, reason=topic.error_message)


def as_create_topics(ctx: RequestContext) -> RequestContext:
    """Return the context of a CreateTopics for the client's Metadata: same principal, same address."""
    return RequestContext(
        principal=ctx.principal,
        listener=ctx.listener,
        security_protocol=ctx.security_protocol,
        client_id=ctx.client_id,
        client_address=ctx.client_address,
        correlation_id=ctx.correlation_id,
        api_key=ApiKey.CREATE_TOPICS,
        api_version=BROKER_APIS[ApiKey.CREATE_TOPICS][1],
        connection_id=ctx.connection_id,
        received_ms=ctx.received_ms,
    )
