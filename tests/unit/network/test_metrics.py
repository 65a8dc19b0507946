"""What is counted, as a scrape shows it."""

import asyncio

from kvorum.network.connection_counts import ConnectionCounts
from kvorum.network.context import RequestContext
from kvorum.network.metrics import RegistryMetrics
from kvorum.network.router import Handler
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kvorum.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kvorum.protocol.messages.metadata import MetadataRequest
from kvorum.runtime.metrics import Metrics
from tests.unit.network.network_kit import channel_to, listener_of, metadata_handler, run, until


def test_connections_requests_errors_and_bytes_are_counted() -> None:
    async def main() -> None:
        metrics = Metrics()
        parked: list[asyncio.Future[ListGroupsResponse]] = []

        def refuse(ctx: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

        def park(ctx: RequestContext, request: ListGroupsRequest) -> asyncio.Future[ListGroupsResponse]:
            parked.append(asyncio.get_running_loop().create_future())
            return parked[-1]

        listener = listener_of(
            metadata_handler(),
            Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), refuse),
            Handler(ApiKey.LIST_GROUPS, (0, 5), park),
            counts=ConnectionCounts(connections_max=2),
            metrics=RegistryMetrics(metrics, asyncio.get_running_loop().time),
        )
        port = await listener.start()
        channel = channel_to(port)
        for _ in range(3):
            await channel.request(MetadataRequest())
        await channel.request(InitProducerIdRequest())
        waiting = asyncio.create_task(channel.request(ListGroupsRequest()))
        await until(lambda: parked)
        assert listener.queued_requests == 1
        parked[0].set_result(ListGroupsResponse())
        await waiting
        assert listener.queued_requests == 0
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        await until(lambda: listener.connection_count == 2)
        reader, third = await asyncio.open_connection("127.0.0.1", port)
        try:
            assert await reader.read() == b""
        except ConnectionError:
            third.close()
        third.close()
        writer.write(b"\xff\xff\xff\xff")
        await until(lambda: listener.connection_count == 1)
        writer.close()
        text = metrics.render().decode()
        for line in (
            'kafka_network_requestmetrics_requests_total{request="Metadata",version="13"} 3.0',
            'kafka_network_requestmetrics_errors_total{error="NOT_COORDINATOR",request="InitProducerId"} 1.0',
            'kvorum_request_seconds_count{request="ListGroups"} 1.0',
            'kafka_server_socket_server_metrics_connection_count{listener="PLAINTEXT"} 1.0',
            'kafka_server_socket_server_metrics_connection_creation_total{listener="PLAINTEXT"} 2.0',
            'kafka_server_socket_server_metrics_connection_close_total{listener="PLAINTEXT"} 1.0',
            'kvorum_connections_refused_total{listener="PLAINTEXT",reason="max.connections"} 1.0',
            'kvorum_connections_refused_total{listener="PLAINTEXT",reason="malformed"} 1.0',
        ):
            assert line in text
        assert metrics.counter("kafka_server_socket_server_metrics_incoming_byte_total").labels("PLAINTEXT").value > 100
        assert metrics.counter("kafka_server_socket_server_metrics_outgoing_byte_total").labels("PLAINTEXT").value > 100
        await channel.close()
        await listener.close()

    run(main)
