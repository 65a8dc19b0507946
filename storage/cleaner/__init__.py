"""Compaction: of the records of one key the last one stays (Kafka's LogCleaner, KIP-58, KIP-354, KIP-534)."""
