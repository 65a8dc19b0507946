"""/v1/groups."""
