"""The paths below /v1."""
