"""Workloads of unmodified clients on a cluster under faults: operations, loads, final reads."""
