"""The data plane: request handlers, replicas, ISR, fetchers, and later coordinators."""
