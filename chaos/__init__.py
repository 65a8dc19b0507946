"""Breaking it and proving what held: simulator, and later faults, workloads, checker, reports."""
