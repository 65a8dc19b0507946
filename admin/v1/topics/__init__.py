"""/v1/topics."""
