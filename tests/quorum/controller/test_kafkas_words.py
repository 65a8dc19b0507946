"""What people read in the output of Kafka's own tools: the controller's messages are Kafka 4.3.0's, to the letter."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from controller_kit import CONTROLLER_ID, World

from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kvorum.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kvorum.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kvorum.quorum.controller.elections import PREFERRED, elect_leaders
from kvorum.quorum.controller.features import update_features
from kvorum.quorum.controller.placement import ReplicaPlacer, UsableBroker
from kvorum.quorum.controller.registration import unregister_broker
from kvorum.runtime.config_defs import validate_topic_configs
from kvorum.runtime.config_types import InvalidValue

Decide = Callable[..., Any]


def message_of(world: World, decide: Decide, request: object) -> str | None:
    with pytest.raises(KafkaError) as caught:
        world.decide(decide, request)
    return caught.value.message


def test_a_replication_factor_beyond_the_brokers() -> None:
    brokers = [UsableBroker(broker_id=number, rack=None, fenced=False) for number in range(3)]
    with pytest.raises(KafkaError) as caught:
        ReplicaPlacer(brokers, Random(1)).place(4)
    assert caught.value.message == (
        "The target replication factor of 4 cannot be reached because only 3 broker(s) are registered or some brokers "
        "have all their log directories cordoned."
    )


def test_an_election_of_what_is_not_there() -> None:
    world = World()
    world.start(1)
    world.topic("orders", (1,))
    wanted = [TopicPartitions(topic="nothere", partitions=[0]), TopicPartitions(topic="orders", partitions=[9])]
    response = world.do(elect_leaders, ElectLeadersRequest(election_type=PREFERRED, topic_partitions=wanted))
    messages = [each.error_message for topic in response.replica_election_results for each in topic.partition_result]
    assert messages == ["No such topic as nothere", "No such partition as orders-9"]


def test_a_broker_that_is_not_registered() -> None:
    message = message_of(World(), unregister_broker, UnregisterBrokerRequest(broker_id=9))
    assert message == "Broker ID 9 is not currently registered"


@pytest.mark.parametrize(
    ("name", "level", "reason"),
    [
        ("nonsense", 1, "does not support this feature."),
        ("transaction.version", 9, "only supports versions 0-2"),
    ],
)
def test_a_feature_level_that_cannot_be(name: str, level: int, reason: str) -> None:
    update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=1)
    assert message_of(World(), update_features, UpdateFeaturesRequest(feature_updates=[update])) == (
        "The update failed for all features since the following feature had an error: Invalid update version "
        f"{level} for feature {name}. Local controller {CONTROLLER_ID} {reason}"
    )


def test_an_unknown_topic_config_with_what_was_meant_where_something_is_near() -> None:
    with pytest.raises(InvalidValue, match=r"^Unknown topic config name: nonsense$"):
        validate_topic_configs({"nonsense": "1"})
    with pytest.raises(
        InvalidValue, match=r"^Unknown topic config name: retention\.msec \(.*did you mean retention\.ms"
    ):
        validate_topic_configs({"retention.msec": "1"})
