"""What people read in the output of Kafka's own tools: the controller's messages are Kafka 4.3.0's, to the letter."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from kvorum.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kvorum.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kvorum.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kvorum.quorum.controller.client_quotas import QuotaAlterations, alter_client_quotas
from kvorum.quorum.controller.elections import PREFERRED, elect_leaders
from kvorum.quorum.controller.features import update_features
from kvorum.quorum.controller.placement import ReplicaPlacer, UsableBroker
from kvorum.quorum.controller.registration import unregister_broker
from kvorum.runtime.config_defs import validate_topic_configs
from kvorum.runtime.config_types import InvalidValue
from tests.unit.quorum.controller.controller_kit import CONTROLLER_ID, World

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


def test_an_election_for_a_missing_partition() -> None:
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
    ("name", "level", "kind", "reason"),
    [
        ("nonsense", 1, 1, f"Local controller {CONTROLLER_ID} does not support this feature."),
        ("nonsense", 0, 1, "Feature nonsense not found."),
        ("transaction.version", 9, 1, f"Local controller {CONTROLLER_ID} only supports versions 0-2"),
        ("transaction.version", 9, 2, f"Local controller {CONTROLLER_ID} only supports versions 0-2"),
        ("transaction.version", 9, 0, "The controller does not support the given upgrade type."),
        ("transaction.version", -1, 1, "A feature version cannot be less than 0."),
        ("metadata.version", 29, 1, f"Local controller {CONTROLLER_ID} only supports versions 30"),
        (
            *("transaction.version", 1, 1),
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade.",
        ),
        ("kraft.version", 1, 3, "Can't downgrade to a newer version."),
    ],
)
def test_a_feature_level_that_cannot_be_by_the_first_reason(name: str, level: int, kind: int, reason: str) -> None:
    update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
    assert message_of(World(), update_features, UpdateFeaturesRequest(feature_updates=[update])) == (
        "The update failed for all features since the following feature had an error: Invalid update version "
        f"{level} for feature {name}. {reason}"
    )


def test_an_address_combined_with_a_user() -> None:
    entity = [RequestEntityData(entity_type=kind, entity_name="10.0.0.1") for kind in ("ip", "user")]
    entry = RequestEntryData(entity=entity, ops=[OpData(key="connection_creation_rate", value=1.0)])
    requested = QuotaAlterations(request=AlterClientQuotasRequest(entries=[entry]), unresolved=frozenset())
    (row,) = World().do(alter_client_quotas, requested).entries
    assert row.error_message == (
        "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
    )


def test_an_unknown_topic_config_is_reported_with_a_similar_one() -> None:
    with pytest.raises(InvalidValue, match=r"^Unknown topic config name: nonsense$"):
        validate_topic_configs({"nonsense": "1"})
    with pytest.raises(
        InvalidValue, match=r"^Unknown topic config name: retention\.msec \(.*did you mean retention\.ms"
    ):
        validate_topic_configs({"retention.msec": "1"})
