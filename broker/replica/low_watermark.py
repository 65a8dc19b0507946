"""Lowest log start offset of the live replicas, which DeleteRecords waits for. Sans-IO.

A fenced or missing broker is not waited for: it gets the log start from its leader when it returns.
Source: Partition.lowWatermarkIfLeader.
"""

from kvorum.broker.replica.partition import Partition


def low_watermark(partition: Partition) -> int:
    """Return the smallest log start offset of the live replicas: what DeleteRecords has reached. O(followers).

    Only of a partition that is led here; a follower that has not fetched yet holds it at UNKNOWN_OFFSET.
    """
    assert partition.log is not None
    lowest = partition.log.log_start_offset
    for follower in partition.followers.values():
        if follower.log_start_offset < lowest and partition.brokers.broker_epoch(follower.broker_id) is not None:
            lowest = follower.log_start_offset
    return lowest
