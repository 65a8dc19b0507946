"""kafka-python: see client_programs.py for the request and the answer."""

import json
import sys
import time
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

SECONDS = 30


class Token(AbstractTokenProvider):  # type: ignore[misc]
    """Returns a fixed token."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


def settings_of(request: dict[str, Any]) -> dict[str, Any]:
    found = {
        "bootstrap_servers": request["bootstrap"],
        "bootstrap_timeout_ms": 5_000,
        "security_protocol": request["protocol"],
        "sasl_mechanism": request.get("mechanism"),
        "sasl_plain_username": request.get("username"),
        "sasl_plain_password": request.get("password"),
        "sasl_oauth_token_provider": Token(request["token"]) if "token" in request else None,
        "sasl_kerberos_service_name": "kafka",
        "sasl_kerberos_domain_name": "localhost" if "keytab" in request else None,
        "ssl_cafile": request.get("ca"),
        "ssl_certfile": request.get("certificate"),
        "ssl_keyfile": request.get("certificate"),
    }
    return {key: value for key, value in found.items() if value is not None}


def use(request: dict[str, Any]) -> list[str]:
    settings, count = settings_of(request), len(request["values"])
    producer = KafkaProducer(**settings, max_block_ms=15_000)
    try:
        for value in request["values"]:
            sent = producer.send(request["topic"], value.encode())
            if request["seconds"]:
                sent.get(SECONDS)
                time.sleep(request["seconds"] / count)
        sent.get(SECONDS)
    finally:
        producer.close(timeout=1)
    consumer = KafkaConsumer(**settings, auto_offset_reset="earliest", consumer_timeout_ms=1000 * SECONDS)
    consumer.assign([TopicPartition(request["topic"], 0)])
    values = [message.value.decode() for _, message in zip(range(count), consumer, strict=False)]
    consumer.close()
    return values


def main() -> None:
    request = json.load(sys.stdin)
    try:
        answer: dict[str, Any] = {"values": use(request)}
    except KafkaError as error:
        answer = {"class": type(error).__name__, "text": str(error)}
    json.dump(answer, sys.stdout)


main()
