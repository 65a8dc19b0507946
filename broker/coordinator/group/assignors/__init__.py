"""Server-side assignors (KIP-848): they assign partitions to members."""
