"""A controller traces whose requests the cluster's configs say: all brokers', or those of its own node id."""

from kvorum.network.tracing import Tracing
from kvorum.quorum.controller_configs import ControllerConfigs
from kvorum.quorum.image.configs import ResourceType
from kvorum.runtime.trace_wish import KEY, TraceWish
from tests.unit.quorum.runtime.runtime_kit import World, settings
from tests.unit.quorum.runtime.test_own_configs import alter

STATIC = TraceWish(False, "static", 5)


def test_the_configs_of_the_metadata_override_the_own_file() -> None:
    world, tracing = World(), Tracing()
    world.elect()
    own = settings(kvorum_request_trace="client-id=static,count=5")
    tracing.configure(own.str(KEY))
    world.log.add_listener(
        ControllerConfigs(own, lambda: world.image, lambda changed, _: tracing.configure(changed.str(KEY)))
    )

    def whose() -> TraceWish | None:
        return None if tracing.armed is None else tracing.armed.wish

    assert whose() == STATIC
    alter(world, ResourceType.BROKER, "", KEY, "client-id=all,count=7")
    assert whose() == TraceWish(False, "all", 7)
    alter(world, ResourceType.BROKER, "2", KEY, "client-id=another node's")
    assert whose() == TraceWish(False, "all", 7)
    alter(world, ResourceType.BROKER, "1", KEY, "correlation-id=7,count=1")
    assert whose() == TraceWish(False, "*", 1, 7)
    tracing.armed = None  # used up
    alter(world, ResourceType.BROKER, "2", KEY, "client-id=yet another")
    assert whose() is None, "the same wish again begins no other trace"
    alter(world, ResourceType.BROKER, "1", KEY, "")
    assert whose() is None
    world.end()
