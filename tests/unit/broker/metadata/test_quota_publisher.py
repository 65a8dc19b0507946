"""Quotas count from the update on in which they come; hosts are resolved beside it."""

import asyncio
from typing import Any

from kvorum.broker.metadata.quota_publisher import QuotaPublisher
from kvorum.network.context import RequestContext
from kvorum.network.ip_rates import IpConnectionRates
from kvorum.network.quota_rate import Windows
from kvorum.network.quotas import BrokerQuotas
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.image.client_quotas import entity_of, quota_record
from kvorum.quorum.publisher import LoaderManifest, ManifestKind

MANIFEST = LoaderManifest(kind=ManifestKind.LOG_DELTA, offset=1, epoch=1, batches_count=1, bytes_count=1, leader_id=1)


class Story:
    """A publisher, and the image that it has seen."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.quotas = BrokerQuotas(lambda: 0.0, Windows())
        self.rates = IpConnectionRates(Windows())
        self.publisher = QuotaPublisher(self.quotas, self.rates)

    def publish(self, kind: str, name: str | None, key: str, value: float | None) -> None:
        delta = MetadataDelta(self.image)
        delta.replay(quota_record(entity_of([(kind, name)]), key, value))
        self.image = delta.apply(self.image.offset + 1, 1)
        self.publisher.on_metadata_update(delta, self.image, MANIFEST)


def run(journey: Any) -> None:
    async def main() -> None:
        story = Story()
        async with asyncio.timeout(30):
            await journey(story)
        await story.publisher.close()

    asyncio.run(main())


def test_a_quota_holds_from_its_update_on_and_until_it_is_removed() -> None:
    async def journey(story: Story) -> None:
        ctx = RequestContext(client_id="app")
        assert not story.quotas.enabled
        story.publish("user", "ANONYMOUS", "producer_byte_rate", 10)
        assert story.quotas.enabled and story.quotas.throttle_ms(ctx, produced=200) == 10_000
        story.publish("user", "ANONYMOUS", "producer_byte_rate", None)
        assert not story.quotas.enabled

    run(journey)


def test_unrelated_changes_do_not_touch_quotas() -> None:
    async def journey(story: Story) -> None:
        story.publish("client-id", None, "producer_byte_rate", 10)
        meter = story.quotas.produce.meter(RequestContext(client_id="app"))
        story.publisher.on_metadata_update(MetadataDelta(story.image), story.image, MANIFEST)
        assert meter is not None and story.quotas.produce.meter(RequestContext(client_id="app")) is meter

    run(journey)


def test_addresses_count_at_once_and_hosts_once_they_are_resolved() -> None:
    async def journey(story: Story) -> None:
        rate = "connection_creation_rate"
        story.publish("ip", "10.0.0.1", rate, 3)
        story.publish("ip", None, rate, 9)
        assert dict(story.rates.limits) == {"10.0.0.1": 3}
        story.publish("ip", "no host of this name", rate, 2)
        story.publish("ip", "localhost", rate, 7)
        assert dict(story.rates.limits) == {"10.0.0.1": 3}
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
        assert story.rates.limits["127.0.0.1"] == 7 and story.rates.limits["10.0.0.1"] == 3
        story.publish("ip", "localhost", rate, None)
        story.publish("ip", "10.0.0.1", rate, None)
        assert "127.0.0.1" not in story.rates.limits
        assert [story.rates.throttle_ms("10.0.0.9", 0) for _ in range(91)][-1] > 0, "the default"

    run(journey)
