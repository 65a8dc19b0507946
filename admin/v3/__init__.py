"""Confluent's REST API for Kafka, version 3, for existing clients and tools.

The same paths, bodies, kinds and error codes as Confluent's REST Proxy has below /v3, and below /kafka/v3 as its server
and its cloud have them. Each file is an area; routes.py lists all. Source: that API's public description.
"""
