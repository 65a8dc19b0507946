"""What can be wrong with a topology: found before anything runs."""


class TopologyError(Exception):
    """The topology cannot be built or run as it was written; the message names the node and the way out."""
