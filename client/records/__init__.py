"""Records as people read them: reading, decoding, filtering."""
