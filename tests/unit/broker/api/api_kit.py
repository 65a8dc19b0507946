"""A broker whose parts are small models; handlers are asked as the router asks them, coded both ways."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from kvorum.broker.api import registry
from kvorum.broker.metadata.auto_topic_creation import AutoTopicCreation
from kvorum.broker.metadata.cache import MetadataCache
from kvorum.broker.metadata.dynamic_config import DynamicConfig
from kvorum.broker.services import Broker
from kvorum.network.authorizer import NoQuotas, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.codec import decode_request, decode_response, encode, encode_bytes
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.parts import FileSlice
from kvorum.protocol.schema import Message
from kvorum.protocol.uuids import Uuid
from kvorum.quorum import records
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.runtime.config import Settings

CLUSTER_ID = "kvorum-test-cluster-id"
TOPIC_ID = Uuid(b"\x01" * 16)
OTHER_ID = Uuid(b"\x02" * 16)


@dataclass
class Rules:
    """An authorizer that refuses what is listed."""

    refused: set[tuple[Operation, ResourceType, str]] = field(default_factory=set)
    version: int = 0

    def authorize(self, ctx: RequestContext, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return (operation, resource_type, name) not in self.refused


@dataclass
class Forwarded:
    """A controller that notes what it is sent and answers what the test says."""

    answer: Callable[[Message], Message] | KafkaError | None = None
    seen: list[tuple[RequestContext, Message]] = field(default_factory=list)

    async def forward(self, ctx: RequestContext, request: Message) -> Message:
        self.seen.append((ctx, request))
        assert self.answer is not None, "no answer prepared"
        if isinstance(self.answer, KafkaError):
            raise self.answer
        return self.answer(request)


def register(
    broker_id: int, *, fenced: bool = False, rack: str | None = None, listeners: Mapping[str, int] | None = None
):
    """The record of a broker that listens on these ports."""
    ports = listeners if listeners is not None else {"PLAINTEXT": 9000 + broker_id, "INTERNAL": 9500 + broker_id}
    return records.RegisterBroker(
        broker_id=broker_id,
        broker_epoch=0,
        incarnation_id=Uuid(bytes([broker_id]) * 16),
        endpoints=tuple(records.Endpoint(name, f"{name.lower()}-{broker_id}", port) for name, port in ports.items()),
        rack=rack,
        fenced=fenced,
    )


def topic(name: str, topic_id: Uuid, *partitions: tuple[tuple[int, ...], tuple[int, ...], int]) -> list[Any]:
    """The records of a topic; a partition is (replicas, isr, leader)."""
    made: list[Any] = [records.Topic(name=name, topic_id=topic_id)]
    for index, (replicas, isr, leader) in enumerate(partitions):
        made.append(
            records.Partition(
                topic_id=topic_id, partition_id=index, replicas=replicas, isr=isr, leader=leader, leader_epoch=5
            )
        )
    return made


def image_of(*made: Any, offset: int = 100) -> MetadataImage:
    delta = MetadataDelta(MetadataImage())
    for record in made:
        delta.replay(record)
    return delta.apply(offset, 1)


def three_brokers() -> list[Any]:
    return [
        register(1, rack="a"),
        register(2),
        register(3, fenced=True),
        records.Feature(name="metadata.version", level=9),
    ]


def a_broker(
    *made: Any,
    broker_id: int = 1,
    active_controller: int | None = None,
    settings: Mapping[str, object] | None = None,
    **parts: Any,
) -> Any:
    """A Broker of models. `made` are metadata records; `parts` replace single parts."""
    image = image_of(*(made or three_brokers()))
    static = Settings.of({"node.id": broker_id, **(settings or {})})
    cache = MetadataCache(broker_id, lambda: active_controller, random.Random(1))
    cache.image = image
    configs = DynamicConfig(static, broker_id)
    configs.set_image(image.configs)
    configs.apply()
    controller = parts.pop("controller", None) or Forwarded()
    built: dict[str, Any] = {
        "broker_id": broker_id,
        "cluster_id": CLUSTER_ID,
        "clock": SimpleNamespace(monotonic_ms=lambda: 0, wall_ms=lambda: 0),
        "disk": None,
        "metadata": cache,
        "configs": configs,
        "replica_manager": None,
        "log_manager": None,
        "fetch_sessions": None,
        "controller": controller,
        "auto_topics": AutoTopicCreation(controller, lambda: configs.settings, lambda name: None),
        "producer_ids": None,
        "metadata_log": SimpleNamespace(leader_epoch=3),
        "peers": SimpleNamespace(settle=lambda answer, _leaders: answer()),
        "authorizer": Rules(),
        "quotas": NoQuotas(),
        "internal_topics": None,
        "groups": None,
        "transactions": None,
    }
    broker = Broker(**{**built, **parts})
    registry.handlers(broker)
    return broker


def ask(broker: Any, request: Message, version: int, **context: Any) -> Any:
    """Hand a request to its handler, coded both ways at this version."""
    return asyncio.run(asking(broker, request, version, **context))


async def asking(broker: Any, request: Message, version: int, **context: Any) -> Any:
    """As `ask`, inside a running loop."""
    key = ApiKey(request.API_KEY)
    ctx = RequestContext(api_key=key, api_version=version, **context)
    sent = decode_request(key, version, bytearray(encode_bytes(request, version)))
    api = next(each for each in (*registry.APIS, *registry.TELEMETRY) if each.api_key == key)
    result = api.handle(ctx, sent, broker)
    if isinstance(result, Awaitable):
        result = await result
    if result is None:
        return None
    return decode_response(key, version, joined(encode(result, version)))


def joined(parts: list[Any]) -> bytes:
    """Read parts that lie in files, and join all."""
    return b"".join(
        part.file.pread(part.size, part.position) if isinstance(part, FileSlice) else bytes(part) for part in parts
    )
