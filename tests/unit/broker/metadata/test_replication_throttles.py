"""Throttles of the metadata reach the quotas: rates by broker, lists by topic, and they go with what set them."""

from kvorum.broker.metadata.replication_throttles import ReplicationThrottles
from kvorum.broker.replica.log_dir_moves import MoveQuota
from kvorum.broker.replica.replication_quota import ReplicationQuotas
from kvorum.protocol.uuids import Uuid
from kvorum.quorum import records
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.image.configs import ResourceType
from kvorum.quorum.publisher import LoaderManifest, ManifestKind
from kvorum.runtime.config import Settings

TOPIC_ID = Uuid(b"\x07" * 16)
MANIFEST = LoaderManifest(kind=ManifestKind.LOG_DELTA, offset=0, epoch=1, batches_count=1, bytes_count=1, leader_id=1)
LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


class Broker:
    """Broker 1 and the metadata it follows."""

    def __init__(self) -> None:
        self.quotas = ReplicationQuotas(1, Settings.of({}))
        self.moves = MoveQuota(Settings.of({}))
        self.throttles = ReplicationThrottles(1, self.quotas, self.moves)
        self.image = MetadataImage()

    def hear(self, *made: records.MetadataRecord) -> None:
        delta = MetadataDelta(self.image)
        for record in made:
            delta.replay(record)
        self.image = delta.apply(self.image.offset + len(made), 1)
        self.throttles.on_metadata_update(delta, self.image, MANIFEST)

    @property
    def bounds(self) -> tuple[int | None, int | None]:
        return self.quotas.leader.bound, self.quotas.follower.bound


def of_broker(key: str, value: str | None, name: str = "1") -> records.Config:
    return records.Config(resource_type=ResourceType.BROKER, resource_name=name, name=key, value=value)


def of_topic(key: str, value: str | None) -> records.Config:
    return records.Config(resource_type=ResourceType.TOPIC, resource_name="orders", name=key, value=value)


def test_the_brokers_own_rate_goes_before_that_of_all() -> None:
    broker = Broker()
    assert broker.bounds == (None, None)
    broker.hear(of_broker(LEADER_RATE, "300", ""), of_broker(FOLLOWER_RATE, "400", ""))
    assert broker.bounds == (300, 400)
    broker.hear(of_broker(LEADER_RATE, "100"), of_broker(FOLLOWER_RATE, "7", "2"))
    assert broker.bounds == (100, 400)
    broker.hear(of_broker(LEADER_RATE, None))
    assert broker.bounds == (300, 400)
    broker.hear(of_broker(LEADER_RATE, None, ""), of_broker(FOLLOWER_RATE, None, ""))
    assert broker.bounds == (None, None)


def test_a_topics_lists_go_with_the_topic() -> None:
    broker = Broker()
    broker.hear(records.Topic(name="orders", topic_id=TOPIC_ID), of_topic(LEADERS, "0:1,1:2"), of_topic(FOLLOWERS, "*"))
    assert [broker.quotas.leader.is_throttled("orders", number) for number in (0, 1)] == [True, False]
    assert broker.quotas.follower.is_throttled("orders", 1)
    broker.hear(of_topic(LEADERS, None))
    assert not broker.quotas.leader.throttled and broker.quotas.follower.throttled
    broker.hear(records.RemoveTopic(topic_id=TOPIC_ID))
    assert not broker.quotas.follower.throttled


def test_invalid_throttle_configs_throttle_nothing() -> None:
    broker = Broker()
    broker.hear(records.Topic(name="orders", topic_id=TOPIC_ID), of_topic(LEADERS, "zero"), of_broker(LEADER_RATE, "x"))
    assert not broker.quotas.leader.throttled and broker.bounds == (None, None)
