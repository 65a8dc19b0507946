"""Feature levels, and blocks of producer ids."""

import pytest

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kvorum.protocol.messages.broker_registration import Feature as Supported
from kvorum.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kvorum.quorum.controller.features import METADATA_VERSION_LATEST, update_features
from kvorum.quorum.controller.producer_ids import BLOCK_SIZE, PRODUCER_ID_MAX, allocate_producer_ids
from kvorum.quorum.controller.registration import register_broker
from kvorum.quorum.image.configs import ResourceType
from kvorum.quorum.records import Feature, ProducerIds
from tests.unit.quorum.controller.controller_kit import World

UPGRADE, SAFE, UNSAFE = 1, 2, 3


def request(*updates: tuple[str, int, int], validate_only: bool = False) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in updates
        ],
        validate_only=validate_only,
    )


@pytest.mark.parametrize("elr", [0, 1])
def test_a_new_cluster_has_the_latest_versions_and_eligible_leader_replicas_as_configured(elr: int) -> None:
    world = World(elr=elr, min_isr=2)
    expected = {"metadata.version": METADATA_VERSION_LATEST, "group.version": 1, "transaction.version": 2}
    assert dict(world.image.features.levels) == (
        expected | {"eligible.leader.replicas.version": 1} if elr else expected
    )
    assert dict(world.image.configs.of(ResourceType.BROKER, "")) == ({"min.insync.replicas": "2"} if elr else {})
    assert world.image.features.metadata_version == 30, "4.3-IV0"


def test_a_feature_level_changes_only_if_all_nodes_support_it() -> None:
    world = World()
    world.start(1)
    offset = world.next_offset
    assert world.do(update_features, request(("kraft.version", 1, UPGRADE), validate_only=True)).error_code == 0
    assert world.next_offset == offset
    assert world.do(update_features, request(("kraft.version", 1, UPGRADE))).results == []
    assert world.image.features.level("kraft.version") == 1
    world.do(update_features, request(("kraft.version", 1, UPGRADE)))
    assert world.next_offset == offset + 1, "the level it has is no change"
    world.do(update_features, request(("kraft.version", 0, SAFE)))
    assert "kraft.version" not in world.image.features.levels


def test_old_versions_are_answered_for_each_feature() -> None:
    world = World()
    world.api_version = 1
    response = world.do(update_features, request(("kraft.version", 1, UPGRADE)))
    assert [(result.feature, result.error_code) for result in response.results] == [("kraft.version", 0)]


@pytest.mark.parametrize(
    "updates",
    [
        [("metadata.version", 29, UPGRADE)],
        [("metadata.version", 29, SAFE)],
        [("metadata.version", 29, UNSAFE)],
        [("metadata.version", 31, UPGRADE)],
        [("transaction.version", 3, UPGRADE)],
        [("group.version", 2, UPGRADE)],
        [("transaction.version", 1, UPGRADE)],
        [("eligible.leader.replicas.version", 2, UPGRADE)],
        [("kraft.version", -1, UPGRADE)],
        [("kraft.version", 1, SAFE)],
        [("kraft.version", 1, 0)],
        [("no.such.feature", 1, UPGRADE)],
        [("kraft.version", 1, UPGRADE), ("group.version", 2, UPGRADE)],
    ],
)
def test_an_invalid_level_fails_the_whole_request(updates: list[tuple[str, int, int]]) -> None:
    world = World()
    offset = world.next_offset
    assert world.refused(update_features, request(*updates)) == ErrorCode.INVALID_UPDATE_VERSION
    assert world.next_offset == offset


def test_a_level_that_a_broker_does_not_support_is_refused() -> None:
    world = World()
    latest = Supported(name="metadata.version", min_supported_version=7, max_supported_version=30)
    eligible = Supported(name="eligible.leader.replicas.version", min_supported_version=0, max_supported_version=1)
    coordinators = [
        Supported(name="group.version", min_supported_version=0, max_supported_version=1),
        Supported(name="transaction.version", min_supported_version=0, max_supported_version=2),
    ]
    world.register(1, features=[latest, eligible, *coordinators])
    assert world.refused(update_features, request(("kraft.version", 1, UPGRADE))) == ErrorCode.INVALID_UPDATE_VERSION
    world.register(1)
    assert world.do(update_features, request(("kraft.version", 1, UPGRADE))).error_code == ErrorCode.NONE
    refused = world.registration(2, features=[latest, eligible, *coordinators])
    assert world.refused(register_broker, refused) == ErrorCode.UNSUPPORTED_VERSION


def test_a_downgrade_needs_to_be_called_one_which_version_0_cannot() -> None:
    """Kafka's controller reads the upgrade type, which version 0 does not have, and not what that allows."""
    world = World()
    world.apply([Feature(name="kraft.version", level=1)])
    assert world.refused(update_features, request(("kraft.version", 0, UPGRADE))) == ErrorCode.INVALID_UPDATE_VERSION
    world.api_version = 0
    old = request(("kraft.version", 0, UPGRADE))
    old.feature_updates[0].allow_downgrade = True
    assert world.refused(update_features, old) == ErrorCode.INVALID_UPDATE_VERSION
    old.feature_updates[0].max_version_level = 1
    assert world.do(update_features, old).error_code == ErrorCode.NONE


def test_the_last_of_duplicate_features_counts_and_each_gets_a_result() -> None:
    world = World()
    world.api_version = 1
    twice = request(("transaction.version", 9, UPGRADE), ("group.version", 0, SAFE), ("transaction.version", 1, SAFE))
    answer = world.do(update_features, twice)
    assert world.image.features.level("transaction.version") == 1 and world.image.features.level("group.version") == 0
    assert [row.feature for row in answer.results] == ["transaction.version", "group.version", "transaction.version"]


def test_the_levels_of_coordinators_go_down_and_up_again() -> None:
    """To where clusters are that were formatted before there were coordinators, and back."""
    world = World()
    world.start(1)
    for name, level in (("transaction.version", 1), ("transaction.version", 0), ("group.version", 0)):
        assert world.do(update_features, request((name, level, SAFE))).error_code == ErrorCode.NONE
        assert world.image.features.level(name) == level
    assert world.refused(update_features, request(("group.version", 2, UPGRADE))) == ErrorCode.INVALID_UPDATE_VERSION
    raised = request(("transaction.version", 2, UPGRADE), ("group.version", 1, UPGRADE))
    assert world.do(update_features, raised).error_code == ErrorCode.NONE
    assert (world.image.features.level("transaction.version"), world.image.features.level("group.version")) == (2, 1)


def test_blocks_of_producer_ids_never_overlap() -> None:
    world = World()
    world.start(1, 2)
    starts = []
    for broker_id in (1, 2, 1):
        block = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=world.epoch_of(broker_id))
        response = world.do(allocate_producer_ids, block)
        assert response.producer_id_len == BLOCK_SIZE
        starts.append(response.producer_id_start)
    assert starts == [0, 1000, 2000]
    assert world.image.producer_ids.next_producer_id == 3000 and world.image.producer_ids.broker_id == 1


def test_a_broker_of_another_epoch_gets_no_producer_ids() -> None:
    world = World()
    world.start(1)
    for broker_id, epoch in ((1, world.epoch_of(1) - 1), (2, 0)):
        block = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch)
        assert world.refused(allocate_producer_ids, block) == ErrorCode.STALE_BROKER_EPOCH


def test_the_last_producer_ids_are_allocated_and_then_none() -> None:
    world = World()
    world.start(1)
    epoch = world.epoch_of(1)
    world.apply([ProducerIds(broker_id=1, broker_epoch=epoch, next_producer_id=PRODUCER_ID_MAX - BLOCK_SIZE)])
    block = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    assert world.do(allocate_producer_ids, block).producer_id_start == PRODUCER_ID_MAX - BLOCK_SIZE
    assert world.refused(allocate_producer_ids, block) == ErrorCode.UNKNOWN_SERVER_ERROR
