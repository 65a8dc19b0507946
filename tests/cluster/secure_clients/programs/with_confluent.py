"""librdkafka through confluent-kafka: see client_programs.py for the request and the answer."""

import json
import sys
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

SECONDS = 30


def settings_of(request: dict[str, Any], errors: list[KafkaError]) -> dict[str, Any]:
    found = {
        "bootstrap.servers": request["bootstrap"],
        "security.protocol": request["protocol"],
        "sasl.mechanism": request.get("mechanism"),
        "sasl.username": request.get("username"),
        "sasl.password": request.get("password"),
        "ssl.ca.location": request.get("ca"),
        "ssl.certificate.location": request.get("certificate"),
        "ssl.key.location": request.get("certificate"),
        "error_cb": errors.append,
        "log_level": 0,
    }
    if "token" in request:
        found["oauth_cb"] = lambda _: (request["token"], time.time() + 3600)
    return {key: value for key, value in found.items() if value is not None}


def produce(request: dict[str, Any], settings: dict[str, Any], errors: list[KafkaError]) -> None:
    failed: list[KafkaError] = []
    producer = Producer(settings | {"message.timeout.ms": 15_000})
    for value in request["values"]:
        producer.produce(
            request["topic"], value, on_delivery=lambda error, _: failed.append(error) if error is not None else None
        )
        if request["seconds"]:
            producer.flush(SECONDS)
            time.sleep(request["seconds"] / len(request["values"]))
    end_s = time.monotonic() + SECONDS
    while len(producer) and not causes(errors) and time.monotonic() < end_s:
        producer.poll(0.1)
    if failed or causes(errors):
        producer.purge()
        raise KafkaException((causes(errors) or errors or failed)[0])


def causes(errors: list[KafkaError]) -> list[KafkaError]:
    """Return the errors that are about security; librdkafka repeats its connections otherwise."""
    return [error for error in errors if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL)]


def consume(request: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    values: list[str] = []
    consumer = Consumer(settings | {"group.id": "table", "auto.offset.reset": "error", "enable.auto.commit": False})
    consumer.assign([TopicPartition(request["topic"], 0, 0)])
    end_s = time.monotonic() + SECONDS
    while len(values) < len(request["values"]) and time.monotonic() < end_s:
        for message in consumer.consume(len(request["values"]), 0.2):
            if message.error() is not None:
                raise KafkaException(message.error())
            values.append(message.value().decode())
    consumer.close()
    return values


def main() -> None:
    request, errors = json.load(sys.stdin), []
    try:
        settings = settings_of(request, errors)
        produce(request, settings, errors)
        answer: dict[str, Any] = {"values": consume(request, settings)}
    except KafkaException as error:
        answer = {"class": error.args[0].name(), "text": error.args[0].str()}
    json.dump(answer, sys.stdout)


main()
