"""The APIs and versions offered, held to what a running Apache Kafka 4.3.0 answered (tests/data/kafka-4.3-apis.txt)."""

from pathlib import Path

import pytest

from kvorum.broker.api import registry
from kvorum.network.router import supported_apis
from kvorum.protocol.api import BROKER_APIS, CONTROLLER_APIS, ApiKey

TABLE = Path(__file__).parent.parent.parent.parent / "data" / "kafka-4.3-apis.txt"


def listed(section: str) -> dict[int, tuple[str, int, int]]:
    """{api key: (name, first, last)} of one section of the table."""
    found: dict[int, tuple[str, int, int]] = {}
    current = ""
    for line in TABLE.read_text().splitlines():
        if line.startswith("["):
            current = line.strip("[]")
        elif current == section and line and not line.startswith("#"):
            key, name, first, last = line.split()
            found[int(key)] = (name, int(first), int(last))
    return found


@pytest.mark.parametrize(("section", "table"), [("broker", BROKER_APIS), ("controller", CONTROLLER_APIS)])
def test_the_table_of_versions_is_kafkas(section, table) -> None:
    kafka = listed(section)
    assert len(kafka) > 30
    for key, (first, last) in table.items():
        name, *versions = kafka[key]
        assert [first, last] == versions, name
        assert name.lower() == ApiKey(key).name.lower().replace("_", ""), name


def test_advertised_apis_and_versions_equal_the_table() -> None:
    kafka = listed("broker")
    for key, (first, last) in registry.advertised().items():
        assert (first, last) == kafka[key][1:], kafka[key][0]


def test_produce_is_advertised_from_0_and_served_from_3() -> None:
    """librdkafka switches compression off otherwise (KAFKA-18659)."""
    advertised = {api.api_key: (api.min_version, api.max_version) for api in supported_apis(registry.advertised())}
    assert advertised[ApiKey.PRODUCE] == (0, 13)
    assert registry.SERVED_FROM == {ApiKey.PRODUCE: 3}


def test_each_api_has_one_handler() -> None:
    assert len({api.api_key for api in registry.APIS}) == len(registry.APIS)
    assert [api.api_key for api in registry.APIS] == sorted(api.api_key for api in registry.APIS)
    for api in registry.APIS:
        module = api.handle.__module__.rpartition(".")[2]
        assert ApiKey[module.upper()] is api.api_key
