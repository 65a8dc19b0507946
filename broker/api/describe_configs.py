"""DescribeConfigs (32): v1-v4. The answer: quorum/configs/describe.

v1: sources and synonyms (KIP-226). v3: types and documentation (KIP-569). Topics; brokers (any broker answers the
cluster-wide dynamic configs under the empty name, and kvorum.broker.state of a broker that may be down; only the broker
itself answers its other configs); groups (consumer groups, existing or not); this process's loggers (KIP-412);
subscriptions to client metrics (KIP-714).
Order: authorise each resource, then answer it.
"""

from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kvorum.quorum.configs.describe import DescribedNode, described


def handle(ctx: RequestContext, request: DescribeConfigsRequest, broker: Broker) -> DescribeConfigsResponse:
    """Describe each resource on its own."""
    node = DescribedNode(
        node_id=broker.broker_id,
        layers=broker.configs.layers,
        configs=broker.metadata.image.configs,
        has_topic=broker.metadata.contains,
        may=lambda kind, name: broker.authorizer.authorize(ctx, Operation.DESCRIBE_CONFIGS, kind, name),
    )
    results = described(request, node)
    return DescribeConfigsResponse(throttle_time=broker.throttle(ctx), results=results)


HANDLER = BrokerApi(ApiKey.DESCRIBE_CONFIGS, handle)
