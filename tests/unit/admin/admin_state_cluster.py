"""A cluster that is not there, as far as maintenance and decommission go: three brokers, a topic, what is asked."""

from typing import Any

from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.network.addresses import Address
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages import (
    describe_cluster,
    describe_configs,
    incremental_alter_configs,
    list_partition_reassignments,
    metadata,
    unregister_broker,
)
from kvorum.protocol.schema import Message
from kvorum.runtime.config_defs import BROKER_STATE

DYNAMIC, DEFAULT = 2, 5
Row = tuple[int, list[int], list[int]]
"""Leader, replicas, ISR."""


class AdminStateCluster(ClusterClient):
    """Topic «a», whose partitions are `rows`; `removing` are those on their way from a broker."""

    def __init__(self, *rows: Row) -> None:
        super().__init__([("127.0.0.1", 9001)])
        self.rows = list(rows) or [(1, [1, 2], [1, 2])]
        self.requested: dict[int, dict[str, str]] = {}
        self.removing: dict[int, list[int]] = {}
        self.fenced: set[int] = set()
        self.refusal: tuple[ErrorCode, str] | None = None
        self.forgotten: list[int] = []
        self.has_states = True
        """Whether brokers have the config of maintenance and decommission: not Apache Kafka's."""
        self.looks = 0
        self.on_look: Any = lambda look: None

    async def ask(  # type: ignore[override]  # one class for every answer
        self, request: Message, response: type, address: Address | None = None, **options: Any
    ) -> Any:
        assert address is None, "any broker answers: the one in question may be down"
        return {
            describe_cluster.DescribeClusterRequest: self._brokers,
            describe_configs.DescribeConfigsRequest: self._configs,
            incremental_alter_configs.IncrementalAlterConfigsRequest: self._alter,
            list_partition_reassignments.ListPartitionReassignmentsRequest: self._reassignments,
            metadata.MetadataRequest: self._metadata,
            unregister_broker.UnregisterBrokerRequest: self._unregister,
        }[type(request)](request)

    def _brokers(self, request: Any) -> describe_cluster.DescribeClusterResponse:
        self.looks += 1
        self.on_look(self.looks)
        rows = [
            describe_cluster.DescribeClusterBroker(
                broker_id=each, host="h", port=9000 + each, rack=f"r{each}", is_fenced=each in self.fenced
            )
            for each in (3, 1, 2)
        ]
        return describe_cluster.DescribeClusterResponse(cluster_id="c", controller_id=1, brokers=rows)

    def _metadata(self, request: Any) -> metadata.MetadataResponse:
        rows = [
            metadata.MetadataResponsePartition(
                partition_index=index, leader_id=leader, replica_nodes=replicas, isr_nodes=isr
            )
            for index, (leader, replicas, isr) in enumerate(self.rows)
        ]
        return metadata.MetadataResponse(topics=[metadata.MetadataResponseTopic(name="a", partitions=rows)])

    def _configs(self, request: Any) -> describe_configs.DescribeConfigsResponse:
        results = []
        for resource in request.resources:
            assert resource.configuration_keys
            own = self.requested.get(int(resource.resource_name), {})
            rows = (
                []
                if not self.has_states
                else [
                    describe_configs.DescribeConfigsResourceResult(
                        name=key,
                        value=own.get(key, "active" if key == BROKER_STATE else None),
                        config_source=DYNAMIC if key in own else DEFAULT,
                    )
                    for key in resource.configuration_keys
                ]
            )
            results.append(
                describe_configs.DescribeConfigsResult(
                    resource_type=4, resource_name=resource.resource_name, configs=rows
                )
            )
        return describe_configs.DescribeConfigsResponse(results=results)

    def _alter(self, request: Any) -> incremental_alter_configs.IncrementalAlterConfigsResponse:
        (resource,) = request.resources
        row = incremental_alter_configs.AlterConfigsResourceResponse(
            resource_type=4, resource_name=resource.resource_name, error_message=None
        )
        if self.refusal is not None:
            row.error_code, row.error_message = self.refusal
        elif not request.validate_only:
            own = self.requested.setdefault(int(resource.resource_name), {})
            for each in resource.configs:
                if each.config_operation == 1:
                    own.pop(each.name, None)
                else:
                    own[each.name] = each.value
        return incremental_alter_configs.IncrementalAlterConfigsResponse(responses=[row])

    def _reassignments(self, request: Any) -> list_partition_reassignments.ListPartitionReassignmentsResponse:
        rows = [
            list_partition_reassignments.OngoingPartitionReassignment(
                partition_index=index, replicas=self.rows[index][1], adding_replicas=[], removing_replicas=removing
            )
            for index, removing in self.removing.items()
        ]
        topics = [list_partition_reassignments.OngoingTopicReassignment(name="a", partitions=rows)] if rows else []
        return list_partition_reassignments.ListPartitionReassignmentsResponse(error_message=None, topics=topics)

    def _unregister(self, request: Any) -> unregister_broker.UnregisterBrokerResponse:
        self.forgotten.append(request.broker_id)
        return unregister_broker.UnregisterBrokerResponse(error_message=None)
