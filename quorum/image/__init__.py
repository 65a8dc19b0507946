"""Immutable pictures of the metadata (XImage) and the changes that lead from one to the next (XDelta)."""
