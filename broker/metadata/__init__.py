"""The broker's side of the metadata: cache, publishers, dynamic configuration, heartbeats."""
