"""One generated module a Kafka API: a request and a response shape for all versions at once."""
