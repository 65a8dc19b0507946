"""The chaos lab: faults on real clusters, workloads, histories, a checker, reports."""
