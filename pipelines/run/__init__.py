"""From a pipeline's file to a running query, and the process that keeps it."""
