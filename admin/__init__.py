"""HTTP API for people and scripts. A client of the cluster like any other."""
