"""Clusters on this machine: plan, ports, folders, start and stop."""
