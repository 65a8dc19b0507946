"""Log levels of a controller that is asked directly: its own process's, whoever leads (KIP-412)."""

from collections.abc import Iterator

import pytest

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kvorum.quorum.image.configs import ResourceType
from kvorum.runtime import logs
from kvorum.runtime.logs import Level
from tests.unit.quorum.runtime.runtime_kit import World


@pytest.fixture
def level() -> Iterator[None]:
    """Put the quorum's level back."""
    yield
    logs.set_level(None, "quorum")


def request_of(name: str, value: str, validate_only: bool = False) -> IncrementalAlterConfigsRequest:
    configs = [AlterableConfig(name="quorum", config_operation=0, value=value)]
    resource = AlterConfigsResource(resource_type=ResourceType.BROKER_LOGGER, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


@pytest.mark.usefixtures("level")
def test_a_controller_sets_its_own_without_leading(world: World) -> None:
    own = str(world.settings.int("node.id"))
    for request, code, then in (
        (request_of(own, "DEBUG", validate_only=True), ErrorCode.NONE, logs.get_level()),
        (request_of("77", "DEBUG"), ErrorCode.INVALID_REQUEST, logs.get_level()),
        (request_of(own, "loud"), ErrorCode.INVALID_CONFIG, logs.get_level()),
        (request_of(own, "DEBUG"), ErrorCode.NONE, Level.DEBUG),
    ):
        (row,) = world.run(world.ask(request)).responses
        assert (row.error_code, logs.get_levels()["quorum"]) == (code, then)
