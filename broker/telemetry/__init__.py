"""Metrics that clients push (KIP-714): who is asked for which, what came, and where it is told."""
