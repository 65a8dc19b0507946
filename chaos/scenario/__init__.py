"""Scenario files: the shape of a cluster, a workload, a fault schedule, an expectation; and what runs them."""
