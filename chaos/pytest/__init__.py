"""The pytest plugin: clusters as fixtures."""
