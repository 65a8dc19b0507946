"""`kvorum transactions`."""
