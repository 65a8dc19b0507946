"""Quix Streams: reads `orders`, writes `invoices`. The brokers' addresses are in KAFKA_SERVERS when it is imported.

KAFKA_SERVERS=localhost:9092 python quix_invoices.py
"""

import os

from quixstreams import Application

# Quix ends the application if a checkpoint cannot be committed in time: run it under a supervisor that restarts it.
# A request to a silent broker fails after socket.timeout.ms (default 60 s): too late for the first retry.
patience = {"socket.timeout.ms": 10_000}
app = Application(
    broker_address=os.environ["KAFKA_SERVERS"],
    consumer_group="invoicing",
    auto_offset_reset="earliest",
    commit_interval=1.0,
    consumer_extra_config=patience,
    producer_extra_config={"enable.idempotence": True, **patience},
)
orders = app.topic("orders", value_deserializer="str")
invoices = app.topic("invoices", value_serializer="str")
dataframe = app.dataframe(orders).apply(lambda order: f"invoice for {order}").to_topic(invoices)

if __name__ == "__main__":
    app.run()
