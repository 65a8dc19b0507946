"""How long clients are without a leader after its death: an unmodified producer, and Metadata asked at that moment.

The real figures are in docs/measurements.md; what is asserted here holds on any machine, busy ones too.
"""

import asyncio
import itertools
import random
import time
from typing import Any

from confluent_kafka import KafkaError

from kvorum.network.channel import Channel
from kvorum.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.cluster.clients import create_topic, leader_of
from tests.cluster.conftest import Start
from tests.cluster.load import Load
from tests.cluster.nodes import addresses, name_of

SESSION = "broker.session.timeout.ms=60000"
"""So long that it helps nobody here."""
GAP_SECONDS_MAX = 30.0
"""Generous: it is a tenth to a quarter of a second on a quiet machine."""
HOLD_MS = 10_000
"""The most there is: long enough for an election on a machine that is busy with anything else."""


class TimedLoad(Load):
    """Remembers when each acknowledgement came."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.times: list[float] = []

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        super()._delivered(error, message)
        self.times.append(time.monotonic())


def test_a_producer_is_without_a_leader_for_a_moment_only(start_cluster: Start) -> None:
    cluster = start_cluster("three-nodes.yaml", SESSION)
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "orders", 1, 3, min_insync_replicas="2")
    with TimedLoad(bootstrap, "orders", partitions=1) as load:
        load.wait_for_more()
        killed_at = time.monotonic()
        cluster.kill(name_of(cluster, leader_of(bootstrap, "orders", 0)))
        load.wait_for_more()
    load.assert_all_acked_once_in_order()
    around = [each for each in load.times if each > killed_at - 1]
    assert max(later - earlier for earlier, later in itertools.pairwise(around)) < GAP_SECONDS_MAX


def test_metadata_requested_right_after_a_leaders_death_names_the_next_leader(start_cluster: Start) -> None:
    """Its first answer: both survivors wait for the election, and the dead one stays listed for its clients' sake.

    The kill returns when all of the node's sockets are closed, so both find its end together with the request.
    """
    cluster = start_cluster("three-nodes.yaml", f"kvorum.metadata.hold.ms={HOLD_MS}", SESSION)
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "orders", 1, 3, min_insync_replicas="2")
    with Load(bootstrap, "orders", partitions=1) as load:
        load.wait_for_more()  # both followers fetch, and so will see the leader's end
    dead = leader_of(bootstrap, "orders", 0)
    doomed = name_of(cluster, dead)
    survivors = [address.rpartition(":") for name, address in addresses(cluster).items() if name != doomed]
    request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])

    async def ask(channels: list[Channel]) -> list[MetadataResponse]:
        return await asyncio.gather(*(each.ask(request, MetadataResponse) for each in channels))

    async def story() -> tuple[list[MetadataResponse], list[MetadataResponse]]:
        channels = [
            Channel(host, int(port), client_id="failover", chance=random.Random(1)) for host, _, port in survivors
        ]
        try:
            before = await ask(channels)
            cluster.kill(doomed)
            return before, await ask(channels)
        finally:
            for each in channels:
                await each.close()

    before, after = asyncio.run(story())
    assert [each.topics[0].partitions[0].leader_id for each in before] == [dead, dead]
    found = [each.topics[0].partitions[0] for each in after]
    assert {each.leader_id for each in found} == {leader_of(bootstrap, "orders", 0)}
    assert dead not in {each.leader_id for each in found}
    assert all(each.leader_epoch > before[0].topics[0].partitions[0].leader_epoch for each in found)
    assert all(dead in {node.node_id for node in each.brokers} for each in after)
