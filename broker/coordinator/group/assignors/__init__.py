"""Server-side assignors (KIP-848): who is to have which partitions."""
