"""TLS: key and trust stores, contexts, cipher suites, names in certificates."""
