"""`kvorum chaos`."""
