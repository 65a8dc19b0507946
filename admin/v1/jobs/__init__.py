"""/v1/jobs: connectors of a Connect-compatible REST interface."""
