"""Metrics of a process and of its roles."""
