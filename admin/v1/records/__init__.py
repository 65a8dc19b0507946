"""Records below /v1/topics."""
