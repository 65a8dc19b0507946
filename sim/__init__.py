"""Deterministic simulation: the production classes under a virtual clock, network and disk."""
