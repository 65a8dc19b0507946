"""/v1/reassignments and throttles."""
