"""Partitions, replicas and log directories below /v1."""
