"""Clients of commands: addresses, client properties, profiles."""
