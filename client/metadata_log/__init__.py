"""The metadata log as a client reads it."""
