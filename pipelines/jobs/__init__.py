"""Batch jobs over topics: archive, replay, compaction audit, profile (docs/pipelines/jobs.md)."""
