"""Reassignments of partitions, and the states of brokers that move leaders and replicas."""
