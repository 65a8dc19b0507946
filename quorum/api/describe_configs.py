"""DescribeConfigs (32): v1-v4.

The response, as for brokers: quorum/configs/describe.

v1: sources and synonyms (KIP-226). v3: types and documentation (KIP-569). Any controller responds, leader or not, from
its committed metadata: for its own node id as BROKER and BROKER_LOGGER, for another id INVALID_REQUEST (except
kvorum.broker.state); for topics, groups, subscriptions to client metrics (KIP-714) and, under the empty name, for
configs of all brokers. Inherited values of a topic or a group are from this node's own configuration, as on a broker.
Order: authorise each resource, then describe it.
"""

from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kvorum.quorum.configs.describe import DescribedNode, described
from kvorum.quorum.configs.layers import ConfigLayers
from kvorum.quorum.services import ControllerServices


async def handle(
    ctx: RequestContext, request: DescribeConfigsRequest, services: ControllerServices
) -> DescribeConfigsResponse:
    """Describe each resource on its own."""
    image = services.store.image
    node = DescribedNode(
        node_id=services.node_id,
        layers=ConfigLayers.of(services.settings, image.configs, services.node_id),
        configs=image.configs,
        has_topic=lambda name: image.topics.topic(name) is not None,
        may=lambda kind, name: services.may(ctx, Operation.DESCRIBE_CONFIGS, kind, name),
    )
    return DescribeConfigsResponse(results=described(request, node))
