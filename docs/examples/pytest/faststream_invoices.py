"""FastStream: reads `orders`, writes `invoices`. The brokers' addresses are in KAFKA_SERVERS when it is imported.

KAFKA_SERVERS=localhost:9092 faststream run faststream_invoices:app
"""

import os

from faststream import AckPolicy, FastStream
from faststream.kafka import KafkaBroker

# aiokafka's default is acks=1: an acknowledged record is lost if its leader dies before the followers have it.
broker = KafkaBroker(os.environ["KAFKA_SERVERS"].split(","), acks="all", enable_idempotence=True, logger=None)
app = FastStream(broker)


# FastStream's default commits before the handler has run: an order is lost if the handler fails.
@broker.subscriber("orders", group_id="invoicing", auto_offset_reset="earliest", ack_policy=AckPolicy.NACK_ON_ERROR)
@broker.publisher("invoices")
async def make_invoice(order: str) -> str:
    """Process one record."""
    return f"invoice for {order}"
