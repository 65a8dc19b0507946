"""Faults that a process injects into itself on request."""
