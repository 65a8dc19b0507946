"""Analyses of a topic's records and of its replicas."""
