"""Health of a partition's replicas: the values counted by gauges of a leader. Sans-IO.

Of a partition that is not led here only the reassignment is known.
Source: Partition.isUnderReplicated, isUnderMinIsr, isAtMinIsr, isReassigning.
"""

from kvorum.broker.replica.partition import Partition
from kvorum.broker.replica.types import Role


def is_under_replicated(partition: Partition) -> bool:
    """Return whether this broker leads and a replica that is not just being added is out of sync."""
    expected = len(partition.assigned_replicas) - len(partition.adding_replicas)
    return partition.role is Role.LEADING and expected > len(partition.isr_state.isr)


def is_under_min_isr(partition: Partition) -> bool:
    """Return whether this broker leads with fewer in-sync replicas than acks=all needs."""
    return partition.role is Role.LEADING and len(partition.isr_state.isr) < partition.effective_min_isr


def is_at_min_isr(partition: Partition) -> bool:
    """Return whether this broker leads with exactly as many in-sync replicas as acks=all needs."""
    return partition.role is Role.LEADING and len(partition.isr_state.isr) == partition.effective_min_isr


def is_reassigning(partition: Partition) -> bool:
    """Return whether replicas are being added or removed."""
    return bool(partition.adding_replicas or partition.removing_replicas)
