"""Errors in a topology, found before it runs."""


class TopologyError(Exception):
    """The topology cannot be built or run as it was written; the message names the node and the way out."""
