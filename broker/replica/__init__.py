"""Partitions this broker hosts: leading, following, in-sync replicas, delayed requests."""
