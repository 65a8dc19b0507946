"""Common runtime of both coordinators: load, decide, append, replay, respond when the high watermark has passed."""
