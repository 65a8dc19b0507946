"""The Spark session of a pipeline: what must be on the machine, which connector runs, what is shipped to executors."""
