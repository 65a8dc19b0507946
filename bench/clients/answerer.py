"""A broker that accepts every record and stores none: its throughput is the producer's own limit.

    python -m bench.clients.answerer PARTITIONS        prints its port

It has Kvorum's network layer and the fast path of Produce, and no storage.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import uvloop

from bench.child import follow_parent
from kvorum.broker.api.produce_lane import ProduceLane
from kvorum.network.context import RequestContext
from kvorum.network.router import Handler, Router, supported_apis
from kvorum.network.server import Listener
from kvorum.protocol.api import ApiKey
from kvorum.protocol.batch_header import NO_TIMESTAMP
from kvorum.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kvorum.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kvorum.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kvorum.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.storage.append_run import RunInfo

TOPIC, TOPIC_ID = "taken", Uuid(b"taken" + b"\0" * 11)
BROKER_ID = 1
VERSIONS = {ApiKey.PRODUCE: (3, 13), ApiKey.METADATA: (0, 13), ApiKey.INIT_PRODUCER_ID: (0, 5)}


class Broker:
    """The broker's interface for the fast path."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.port = 0
        self.metadata = self.authorizer = self
        self.quotas = SimpleNamespace(timed=False)
        self.image = SimpleNamespace(topics=SimpleNamespace(by_id={TOPIC_ID: SimpleNamespace(name=TOPIC)}))

    def partition(self, topic: str, index: int) -> object:
        """Every partition is there."""
        return self

    def authorize(self, *what: object) -> bool:
        """All clients are permitted."""
        return True

    def throttle(self, ctx: RequestContext, *, produced: int) -> int:
        """No client is throttled."""
        return 0

    def append_run(
        self,
        timeout_ms: int,
        required_acks: int,
        key: TopicPartition,
        batches: Sequence[memoryview],
        on_done: Callable[[RunInfo, PartitionProduceResponse], None],
    ) -> int:
        """Report completion."""
        on_done(RunInfo([0] * len(batches), NO_TIMESTAMP, 0, 0), PartitionProduceResponse(index=key.partition))
        return len(batches)

    def produce(self, ctx: RequestContext, request: ProduceRequest) -> ProduceResponse:
        """Answer a first request."""
        topics = [
            TopicProduceResponse(
                topic_id=topic.topic_id,
                name=topic.name,
                partition_responses=[PartitionProduceResponse(index=each.index) for each in topic.partition_data],
            )
            for topic in request.topic_data
        ]
        return ProduceResponse(responses=topics)

    def tell(self, ctx: RequestContext, request: MetadataRequest) -> MetadataResponse:
        """Name this broker and the one topic."""
        rows = [
            MetadataResponsePartition(
                partition_index=index,
                leader_id=BROKER_ID,
                leader_epoch=0,
                replica_nodes=[BROKER_ID],
                isr_nodes=[BROKER_ID],
            )
            for index in range(self.partitions)
        ]
        broker = MetadataResponseBroker(node_id=BROKER_ID, host="127.0.0.1", port=self.port)
        topic = MetadataResponseTopic(name=TOPIC, topic_id=TOPIC_ID, partitions=rows)
        return MetadataResponse(brokers=[broker], cluster_id="answers", controller_id=BROKER_ID, topics=[topic])


def served(ctx: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Return the served topics."""
    return ApiVersionsResponse(api_keys=supported_apis({int(key): each for key, each in VERSIONS.items()}))


def identify(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Return the only producer id."""
    return InitProducerIdResponse(producer_id=1)


async def main(partitions: int) -> None:
    """Serve until killed."""
    broker: Any = Broker(partitions)
    handlers = [
        Handler(ApiKey.PRODUCE, VERSIONS[ApiKey.PRODUCE], broker.produce),
        Handler(ApiKey.METADATA, VERSIONS[ApiKey.METADATA], broker.tell),
        Handler(ApiKey.INIT_PRODUCER_ID, VERSIONS[ApiKey.INIT_PRODUCER_ID], identify),
        Handler(ApiKey.API_VERSIONS, (0, 4), served),
    ]
    listener = Listener("PLAINTEXT", "127.0.0.1", 0, Router(handlers, lane=ProduceLane(broker, broker)))
    broker.port = await listener.start()
    print(broker.port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    follow_parent()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(int(sys.argv[1])))
