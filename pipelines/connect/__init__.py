"""Kafka Connect's REST interface over pipelines: a manager keeps them running, its state in compacted topics."""
