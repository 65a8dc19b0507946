"""`kvorum reassign` and `kvorum brokers`."""
