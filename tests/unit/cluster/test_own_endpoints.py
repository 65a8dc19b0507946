"""Where a controller says that it listens: what the quorum's voter set will have of it."""

from collections.abc import Mapping

import pytest

from kvorum.cluster.local.formatting import own_endpoints
from kvorum.runtime.config import Settings

STATIC = {"controller.quorum.voters": "1@one.example:9093,2@two.example:9093"}
DYNAMIC = {"controller.quorum.bootstrap.servers": "two.example:9093"}


def settings(changes: Mapping[str, str]) -> Settings:
    base = {"process.roles": "controller", "node.id": "1", "controller.listener.names": "CONTROLLER"}
    return Settings.of({**base, **changes})


@pytest.mark.parametrize(
    ("changes", "host"),
    [
        ({**STATIC, "listeners": "CONTROLLER://:9093"}, "one.example"),
        ({**STATIC, "listeners": "CONTROLLER://10.0.0.1:9093"}, "10.0.0.1"),
        (
            {**STATIC, "listeners": "CONTROLLER://:9093", "advertised.listeners": "CONTROLLER://c.example:9093"},
            "c.example",
        ),
        ({**DYNAMIC, "listeners": "CONTROLLER://:9093"}, "127.0.0.1"),
    ],
)
def test_a_listener_without_a_host_uses_the_host_of_its_voter_address(changes: Mapping[str, str], host: str) -> None:
    """A static quorum that is upgraded must not write down an address that leads nowhere from elsewhere."""
    assert own_endpoints(settings(changes)) == [("CONTROLLER", host, 9093)]
