"""Commands that run clusters and nodes on this machine."""
