"""A listener with SASL that looks like a broker to clients that list topics."""

import time

from kvorum.network.context import RequestContext
from kvorum.network.metrics import RegistryMetrics
from kvorum.network.router import Handler, Router, supported_apis
from kvorum.network.server import Listener
from kvorum.protocol.api import BROKER_APIS, ApiKey
from kvorum.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kvorum.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kvorum.runtime.listeners import SecurityProtocol
from kvorum.runtime.metrics import Metrics
from kvorum.security.principal import Principal
from kvorum.security.sasl.authenticator import SaslConfig

TOPIC = "of-the-secure-cluster"


class SaslCluster:
    """See the module; records the principals of Metadata requests."""

    def __init__(self, sasl: SaslConfig, host: str = "127.0.0.1") -> None:
        self.principals: set[Principal] = set()
        self.metrics = Metrics()
        self._host = host
        self._versions = supported_apis({int(key): versions for key, versions in BROKER_APIS.items()})
        handlers = [
            Handler(ApiKey.API_VERSIONS, (0, 4), self._api_versions),
            Handler(ApiKey.METADATA, BROKER_APIS[ApiKey.METADATA], self._metadata),
        ]
        self.listener = Listener(
            "SASL",
            "127.0.0.1",
            0,
            Router(handlers),
            security_protocol=SecurityProtocol.SASL_PLAINTEXT,
            sasl=sasl,
            metrics=RegistryMetrics(self.metrics, time.monotonic),
        )

    def count(self, name: str) -> float:
        """Return a counter of the listener."""
        return self.metrics.counter(name).labels("SASL").value

    def _api_versions(self, ctx: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
        return ApiVersionsResponse(api_keys=self._versions)

    def _metadata(self, ctx: RequestContext, request: MetadataRequest) -> MetadataResponse:
        self.principals.add(ctx.principal)
        partition = MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1])
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host=self._host, port=self.listener.port)],
            controller_id=1,
            cluster_id="secure",
            topics=[MetadataResponseTopic(name=TOPIC, partitions=[partition])],
        )
