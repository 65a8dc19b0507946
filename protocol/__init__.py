"""Kafka's wire words: message codec, API versions, errors, record batches, compression, uuids. Sans-IO."""
