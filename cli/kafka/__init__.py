"""Apache Kafka's scripts by their names, with their own options and output, a module each."""
