"""Kafka's protocol from a client's side, and Kvorum's public Python API."""
