"""`kvorum groups`."""
