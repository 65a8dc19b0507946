"""A peer of another cluster: it is sent nothing but DescribeCluster, and proves nothing by itself."""

import pytest

from kvorum.network import cluster_check
from kvorum.network.cluster_check import ClusterCheck, EndpointType, missing_peers, peer_name, wrong_cluster
from kvorum.network.context import RequestContext
from kvorum.network.dial import ChannelError, ConnectionLost, ForeignPeer
from kvorum.network.router import Handler
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kvorum.protocol.messages.metadata import MetadataRequest
from tests.unit.network.network_kit import channel_to, listener_of, metadata_handler, run

REFUSED = ConnectionLost("a:1 refused the connection", maybe_sent=False, refused=True)
NAMES = ("1 (a:1)", "2 (b:2)", "3 (c:3)")


def describe(cluster_id: str = "theirs", code: ErrorCode = ErrorCode.NONE) -> Handler:
    def handle(ctx: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
        assert request.endpoint_type == EndpointType.CONTROLLER
        return DescribeClusterResponse(cluster_id=cluster_id, error_code=code)

    return Handler(ApiKey.DESCRIBE_CLUSTER, (0, 2), handle)


class Warnings:
    def __init__(self) -> None:
        self.fields: list[dict[str, object]] = []

    def warning(self, text: str, **fields: object) -> None:
        self.fields.append(fields)


def test_a_request_never_reaches_a_peer_of_another_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    warnings = Warnings()
    monkeypatch.setattr(cluster_check, "log", warnings)

    async def main() -> None:
        metadata = metadata_handler()
        listener = listener_of(describe(), metadata)
        port = await listener.start()
        check = ClusterCheck("ours", EndpointType.CONTROLLER)
        for _ in range(3):
            channel = channel_to(port, check=check)
            with pytest.raises(ForeignPeer, match="belongs to another cluster, theirs") as caught:
                await channel.request(MetadataRequest(topics=None))
            assert not caught.value.maybe_sent
            await channel.close()
        expected = {"address": f"127.0.0.1:{port}", "its_cluster_id": "theirs", "our_cluster_id": "ours"}
        assert warnings.fields == [expected], "one line a minute"
        ours = channel_to(port, check=ClusterCheck("theirs", EndpointType.CONTROLLER))
        await ours.request(MetadataRequest(topics=None))
        await ours.close()
        await listener.close()

    run(main)


@pytest.mark.parametrize("handler", [describe(code=ErrorCode.MISMATCHED_ENDPOINT_TYPE), metadata_handler()])
def test_a_peer_that_does_not_return_its_cluster_id_is_sent_nothing(handler: Handler) -> None:
    async def main() -> None:
        listener = listener_of(handler)
        channel = channel_to(await listener.start(), check=ClusterCheck("ours", EndpointType.CONTROLLER))
        with pytest.raises(ConnectionLost, match="is not a controller") as caught:
            await channel.request(MetadataRequest(topics=None))
        assert not caught.value.maybe_sent
        await channel.close()
        await listener.close()

    run(main)


@pytest.mark.parametrize(
    ("failures", "is_wrong"),
    [
        ((ForeignPeer("x"), ForeignPeer("x"), ForeignPeer("x")), True),
        ((ForeignPeer("x"), REFUSED, ForeignPeer("x")), True),
        ((ForeignPeer("x"), REFUSED, REFUSED), False),
        ((ForeignPeer("x"), ForeignPeer("x"), None), False),
        ((REFUSED, REFUSED, REFUSED), False),
    ],
    ids=["all are foreign", "all that answer, most", "one is", "one was not tried yet", "none answers"],
)
def test_a_node_is_of_the_wrong_cluster_only_if_most_answer_and_all_that_do_are_foreign(
    failures: tuple[ChannelError | None, ...], is_wrong: bool
) -> None:
    found = {name: each for name, each in zip(NAMES, failures, strict=True) if each is not None}
    reason = wrong_cluster("ours", found, NAMES)
    assert (reason is not None) is is_wrong
    if reason is not None:
        assert "belongs to cluster ours" in reason and "belong to cluster x: 1 (a:1)" in reason


def test_no_controller_proves_a_wrong_cluster_where_none_is_known() -> None:
    assert wrong_cluster("ours", {}, ()) is None


def test_missing_peers_are_named_by_reason() -> None:
    found = {"2 (b:2)": REFUSED, "1 (a:1)": ForeignPeer("x"), "3 (c:3)": REFUSED}
    text = "1 (a:1): belongs to another cluster, x; 2 (b:2), 3 (c:3): connection refused"
    assert missing_peers(found) == text
    assert peer_name(-2, ("a", 1)) == "a:1" and peer_name(7, None) == "7 (unknown address)"
