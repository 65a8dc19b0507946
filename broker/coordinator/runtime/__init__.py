"""What both coordinators run on: load, decide, append, replay, answer when the high watermark has passed."""
