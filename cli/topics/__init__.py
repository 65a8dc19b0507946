"""Commands on topics and partitions."""
