"""Groups of the consumer protocol (KIP-848): the coordinator computes the assignment, members follow in steps."""
