"""Log directories of the public API: the values of a response."""

from kvorum.client.values.log_dir import log_dir_value
from kvorum.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def test_replicas_are_sorted_in_whatever_order_the_broker_returns_them() -> None:
    topics = [
        DescribeLogDirsTopic(name="b", partitions=[DescribeLogDirsPartition(partition_index=each) for each in (10, 2)]),
        DescribeLogDirsTopic(name="a", partitions=[DescribeLogDirsPartition(partition_index=0)]),
    ]
    found = log_dir_value(1, DescribeLogDirsResult(log_dir="/d", topics=topics))
    assert [str(each.topic_partition) for each in found.replicas] == ["a-0", "b-2", "b-10"]
