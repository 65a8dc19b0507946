"""A partition's log on disk: segments, indexes, producer state, epoch cache, recovery, retention."""
