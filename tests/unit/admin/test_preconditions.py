"""If-Match in front of brokers that hear of a change after it was answered, as real ones do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from kvorum.admin.app import AdminApp
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages import describe_configs as configs
from kvorum.protocol.messages import describe_quorum as quorum
from kvorum.protocol.messages import fetch, list_offsets, metadata
from kvorum.protocol.messages import incremental_alter_configs as alter
from kvorum.protocol.schema import Message
from kvorum.protocol.uuids import METADATA_TOPIC_ID, Uuid
from kvorum.runtime.metrics import Metrics
from tests.unit.admin.brokers import TestBroker
from tests.unit.admin.fake import Client, Server, call

CONFIGS = "/v1/topics/t/configs"
CHANGES = [{"set": {"retention.ms": "1"}}, {"set": {"retention.ms": "2"}}]


class Controller:
    """What is committed: configs of topic t, and how long the metadata log is."""

    def __init__(self) -> None:
        self.end = 10
        self.configs: dict[str, str] = {}


class Follower:
    """A broker that has the metadata up to a point, and goes on from there when its log is waited for; or never."""

    def __init__(self, controller: Controller, *, cut_off: bool = False) -> None:
        self.controller = controller
        self.cut_off = cut_off
        self.end, self.configs = controller.end, dict(controller.configs)
        self.refusals = 0
        """So many times its log cannot be read just now."""
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self.broker = TestBroker(
            {
                quorum.DescribeQuorumRequest: self._quorum,
                list_offsets.ListOffsetsRequest: self._offsets,
                fetch.FetchRequest: self._fetch,
                configs.DescribeConfigsRequest: self._configs,
                alter.IncrementalAlterConfigsRequest: self._alter,
                metadata.MetadataRequest: self._metadata,
            }
        )

    def _quorum(self, _: Any) -> Message:
        row = quorum.ResponsePartitionData(leader_id=1, leader_epoch=1, high_watermark=self.controller.end)
        return quorum.DescribeQuorumResponse(topics=[quorum.ResponseTopicData(topic_name="", partitions=[row])])

    def _offsets(self, _: Any) -> Message:
        row = list_offsets.ListOffsetsPartitionResponse(offset=self.end, error_code=self._refusal())
        return list_offsets.ListOffsetsResponse(topics=[list_offsets.ListOffsetsTopicResponse(partitions=[row])])

    async def _fetch(self, request: fetch.FetchRequest) -> Message:
        assert request.topics[0].partitions[0].fetch_offset == self.end
        refusal = self._refusal()
        if not refusal:
            if self.cut_off:
                await asyncio.sleep(request.max_wait / 1000)
            else:
                await self.goes_on.wait()
                self.end, self.configs = self.controller.end, dict(self.controller.configs)
        row = fetch.PartitionData(high_watermark=self.end, error_code=refusal, records=memoryview(b""))
        return fetch.FetchResponse(
            responses=[fetch.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[row])]
        )

    def _refusal(self) -> ErrorCode:
        self.refusals -= 1
        return ErrorCode.OFFSET_NOT_AVAILABLE if self.refusals >= 0 else ErrorCode.NONE

    def _configs(self, _: Any) -> Message:
        rows = [
            configs.DescribeConfigsResourceResult(name=name, value=value, config_source=1)
            for name, value in self.configs.items()
        ]
        return configs.DescribeConfigsResponse(results=[configs.DescribeConfigsResult(configs=rows)])

    def _alter(self, request: alter.IncrementalAlterConfigsRequest) -> Message:
        for each in request.resources[0].configs:
            if each.config_operation:
                self.controller.configs.pop(each.name, None)
            else:
                self.controller.configs[each.name] = each.value or ""
        self.controller.end += 1
        return alter.IncrementalAlterConfigsResponse(responses=[alter.AlterConfigsResourceResponse()])

    def _metadata(self, _: Any) -> Message:
        row = metadata.MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1])
        topic = metadata.MetadataResponseTopic(name="t", topic_id=Uuid(bytes(15) + b"\1"), partitions=[row])
        return metadata.MetadataResponse(topics=[topic])


@asynccontextmanager
async def served(*followers: Follower, timeout_ms: int = 60_000) -> AsyncIterator[Client]:
    """Serve the API in front of these, the first one asked first."""
    async with followers[0].broker.serving(), followers[-1].broker.serving():
        cluster = ClusterClient([each.broker.address for each in followers], timeout_ms=timeout_ms)
        try:
            async with TestClient(Server(AdminApp(cluster, Metrics()).build())) as client:
                yield client
        finally:
            await cluster.close()


async def tag_of(client: Client) -> dict[str, str]:
    async with client.get(CONFIGS) as answer:
        return {"If-Match": answer.headers["ETag"]}


@pytest.mark.parametrize("refusals", [0, 2])
def test_of_two_changes_with_one_tag_one_is_made_though_brokers_hear_of_it_late(refusals: int) -> None:
    async def main() -> None:
        controller = Controller()
        follower, other = Follower(controller), Follower(controller)
        async with served(follower, other) as client:
            tag = await tag_of(client)
            follower.refusals = refusals
            both = await asyncio.gather(*(call(client, "PATCH", CONFIGS, each, headers=tag) for each in CHANGES))
            assert sorted(status for status, _ in both) == [204, 412]
            made = CHANGES[[status for status, _ in both].index(204)]["set"]
            assert controller.configs == made

    asyncio.run(main())


def test_a_change_that_does_not_compare_does_not_come_in_between() -> None:
    async def main() -> None:
        controller = Controller()
        follower, other = Follower(controller), Follower(controller)
        async with served(follower, other) as client:
            tag = await tag_of(client)
            controller.end += 1
            follower.goes_on.clear()
            compared = asyncio.create_task(call(client, "PATCH", CONFIGS, CHANGES[0], headers=tag))
            await follower.broker.until(lambda: follower.broker.count(fetch.FetchRequest) == 1)
            plain = asyncio.create_task(call(client, "PATCH", CONFIGS, CHANGES[1]))
            for _ in range(5):  # time enough for the plain one to come where it would be made
                await call(client, "GET", "/v1/topics")
            follower.goes_on.set()
            assert ((await compared)[0], (await plain)[0]) == (204, 204)
            assert controller.configs == CHANGES[1]["set"]

    asyncio.run(main())


def test_a_broker_that_is_cut_off_is_not_believed_and_the_next_one_is_queried() -> None:
    async def main() -> None:
        controller = Controller()
        cut_off, other = Follower(controller, cut_off=True), Follower(controller)
        async with served(cut_off, other, timeout_ms=1_500) as client:
            tag = await tag_of(client)
            controller.end += 1
            controller.configs["retention.ms"] = "9"
            status, problem = await call(client, "PATCH", CONFIGS, CHANGES[0], headers=tag)
            assert (status, problem["error"]) == (412, "PRECONDITION_FAILED")
            assert controller.configs == {"retention.ms": "9"}

    asyncio.run(main())


def test_nothing_is_changed_if_no_broker_knows_the_current_state() -> None:
    async def main() -> None:
        controller = Controller()
        cut_off = [Follower(controller, cut_off=True) for _ in range(2)]
        async with served(*cut_off, timeout_ms=600) as client:
            tag = await tag_of(client)
            controller.end += 1
            status, problem = await call(client, "PATCH", CONFIGS, CHANGES[0], headers=tag)
            assert (status, problem["error"], controller.configs) == (503, "CLUSTER_UNREACHABLE", {})

    asyncio.run(main())


def test_a_put_sees_earlier_changes() -> None:
    """Else it would take it for what is wanted already, or leave it as it is."""

    async def main() -> None:
        controller = Controller()
        follower, other = Follower(controller), Follower(controller)
        async with served(follower, other) as client:
            assert (await call(client, "PATCH", CONFIGS, CHANGES[0]))[0] == 204
            status, applied = await call(client, "PUT", "/v1/topics/t", {"configs": {}})
            assert (status, [each["what"] for each in applied["changes"]]) == (200, ["configs.retention.ms"])
            assert controller.configs == {}

    asyncio.run(main())
