"""/v1/transactions."""
