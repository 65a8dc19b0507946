"""Groups of the consumer protocol (KIP-848): the coordinator decides who has what, the members follow step by step."""
