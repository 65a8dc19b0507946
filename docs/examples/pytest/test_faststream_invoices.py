"""pytest --kvorum-export KAFKA_SERVERS test_faststream_invoices.py

The cluster starts before the application is imported, because the application reads the address at import time.
"""

import asyncio

from aiokafka import AIOKafkaConsumer
from faststream_invoices import broker


def test_every_order_is_invoiced_though_a_leader_dies(kvorum_session_cluster):
    """Kill the leader of `invoices` in the middle."""
    kvorum_session_cluster.create_topic("orders", replicas=3)
    kvorum_session_cluster.create_topic("invoices", replicas=3)
    asyncio.run(invoice_orders(kvorum_session_cluster))


async def invoice_orders(cluster, count=200):
    """Run the application while orders are sent and the leader dies."""
    async with broker:
        await broker.start()
        for number in range(count):
            await broker.publish(f"order-{number}", "orders")
            if number == count // 2:
                await cluster.aio.kill(await cluster.aio.leader_of("invoices", 0))
        await cluster.aio.wait_for_lag("invoicing", "orders", timeout_seconds=90)
    assert await invoices_of(cluster, count) >= {f"invoice for order-{number}" for number in range(count)}


async def invoices_of(cluster, count):
    """Read until this many different invoices have arrived; duplicates are possible."""
    found = set()
    options = {"bootstrap_servers": cluster.bootstrap_servers, "auto_offset_reset": "earliest"}
    async with asyncio.timeout(60), AIOKafkaConsumer("invoices", **options) as consumer:
        while len(found) < count:
            found.add((await consumer.getone()).value.decode())
    return found
