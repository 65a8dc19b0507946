"""/v1/metadata, events and live streams."""
