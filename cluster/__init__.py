"""Composition root: builds a node from its config; starts, supervises and stops nodes on this machine."""
