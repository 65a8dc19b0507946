"""Settings of clients for a listener with SASL_SSL and SCRAM, as files that five kinds of clients read."""

import json
from collections.abc import Mapping
from typing import Final

from kvorum.runtime.properties import format_properties
from kvorum.security.client_properties import jaas_text
from kvorum.security.jaas import SCRAM_MODULE

MECHANISM: Final = "SCRAM-SHA-512"
JAVA: Final = "java.properties"
RDKAFKA: Final = "librdkafka.properties"
KAFKA_PYTHON: Final = "kafka-python.json"
SPARK: Final = "spark.json"


def java_settings(bootstrap: str, user: str, password: str, trust_store: str) -> dict[str, str]:
    """Return the settings by the names of Java clients; `trust_store` is a PEM file."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": jaas_text(SCRAM_MODULE, username=user, password=password),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": trust_store,
    }


def rdkafka_settings(bootstrap: str, user: str, password: str, trust_store: str) -> dict[str, str]:
    """Return the settings by the names of librdkafka; `trust_store` is a PEM file."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": MECHANISM,
        "sasl.username": user,
        "sasl.password": password,
        "ssl.ca.location": trust_store,
    }


def client_files(bootstrap: str, user: str, password: str, trust_store: str) -> Mapping[str, str]:
    """Return {file name: text}; `trust_store` is a PEM file."""
    java = java_settings(bootstrap, user, password, trust_store)
    rdkafka = rdkafka_settings(bootstrap, user, password, trust_store)
    kafka_python = {
        "bootstrap_servers": bootstrap.split(","),
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": MECHANISM,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
        "ssl_cafile": trust_store,
    }
    return {
        JAVA: format_properties(java),
        RDKAFKA: "".join(f"{key}={value}\n" for key, value in rdkafka.items()),  # without escapes
        KAFKA_PYTHON: json.dumps(kafka_python, indent=2) + "\n",
        SPARK: json.dumps({f"kafka.{key}": value for key, value in java.items()}, indent=2) + "\n",
    }


def usage_lines(folder: str, bootstrap: str) -> list[tuple[str, str]]:
    """Return how the clients read the files of a folder: (client, command or code)."""
    return [
        ("kvorum", f"kvorum profile add dev -b {bootstrap} --command-config {folder}/{JAVA} --use"),
        ("Java", f"kafka-console-producer.sh --bootstrap-server {bootstrap} --command-config {folder}/{JAVA} ..."),
        ("kcat, librdkafka", f"kcat -F {folder}/{RDKAFKA} -L"),
        ("kafka-python", f'KafkaProducer(**json.load(open("{folder}/{KAFKA_PYTHON}")))'),
        ("Spark", f'spark.read.format("kafka").options(**json.load(open("{folder}/{SPARK}")))'),
    ]
