"""`kvorum perf` and `kvorum bench`."""
