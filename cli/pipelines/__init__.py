"""`kvorum pipelines`."""
