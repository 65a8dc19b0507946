"""Metrics pushed by clients (KIP-714): subscriptions, pushes, and their exposition."""
