"""Change data capture from PostgreSQL: a snapshot, then the log, in Debezium's shape (docs/pipelines/cdc.md)."""
