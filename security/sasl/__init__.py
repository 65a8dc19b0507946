"""SASL: mechanisms of both sides, and the state machine of a connection."""
