"""TLS of listeners and channels."""

import asyncio

from confluent_kafka.admin import AdminClient

from kvorum.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kvorum.security.client import ClientSecurity
from tests.tls_certificates import CA, authority, client_tls
from tests.unit.network.network_kit import channel_to, run
from tests.unit.network.tls_kit import Cluster, tls_listener


def test_a_channel_speaks_tls() -> None:
    async def main() -> None:
        listener = tls_listener()
        channel = channel_to(await listener.start(), security=ClientSecurity(tls=client_tls()))
        response = await channel.ask(MetadataRequest(), MetadataResponse)
        assert response.cluster_id == "test-cluster"
        await channel.close()
        await listener.close()
        assert listener.connection_count == 0

    run(main)


def test_librdkafka_speaks_tls() -> None:
    async def main() -> None:
        cluster = Cluster("over TLS")
        listener = tls_listener(None, cluster.handler)
        port = cluster.port = await listener.start()
        settings = {
            "bootstrap.servers": f"localhost:{port}",
            "security.protocol": "SSL",
            "ssl.ca.pem": authority(CA).cert_pem.bytes().decode(),
        }
        admin = AdminClient(settings)
        found = await asyncio.to_thread(admin.list_topics, timeout=20)
        assert found.cluster_id == "over TLS"
        del admin
        await listener.close()

    run(main)
