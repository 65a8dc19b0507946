"""aiokafka: see client_programs.py for the request and the answer."""

import asyncio
import json
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError
from aiokafka.helpers import create_ssl_context

SECONDS = 30


class Token(AbstractTokenProvider):
    """Returns a fixed token."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def settings_of(request: dict[str, Any]) -> dict[str, Any]:
    found = {
        "bootstrap_servers": request["bootstrap"],
        "security_protocol": request["protocol"],
        "sasl_mechanism": request.get("mechanism"),
        "sasl_plain_username": request.get("username"),
        "sasl_plain_password": request.get("password"),
        "sasl_oauth_token_provider": Token(request["token"]) if "token" in request else None,
        "sasl_kerberos_service_name": "kafka" if "keytab" in request else None,
        "sasl_kerberos_domain_name": "localhost" if "keytab" in request else None,
    }
    if "ca" in request:
        own = request.get("certificate")
        found["ssl_context"] = create_ssl_context(cafile=request["ca"], certfile=own, keyfile=own)
    return {key: value for key, value in found.items() if value is not None}


async def use(request: dict[str, Any]) -> list[str]:
    settings = settings_of(request)
    async with AIOKafkaProducer(**settings) as producer:
        for value in request["values"]:
            sent = await producer.send(request["topic"], value.encode())
            if request["seconds"]:
                await sent
                await asyncio.sleep(request["seconds"] / len(request["values"]))
        await producer.flush()
        await sent
    async with AIOKafkaConsumer(**settings, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(request["topic"], 0)])
        async with asyncio.timeout(SECONDS):
            return [(await consumer.getone()).value.decode() for _ in request["values"]]


def main() -> None:
    request = json.load(sys.stdin)
    try:
        answer: dict[str, Any] = {"values": asyncio.run(use(request))}
    except KafkaError as error:
        answer = {"class": type(error).__name__, "text": str(error)}
    json.dump(answer, sys.stdout)


main()
