"""Partitions: offsets, replicas, log directories, deletion of records."""
