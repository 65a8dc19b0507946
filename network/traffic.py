"""Traffic with peers, counted by its reporters."""


class Traffic:
    """Frames and their bytes, both ways, since the start."""

    __slots__ = ("bytes_received", "bytes_sent", "frames_received", "frames_sent")

    def __init__(self) -> None:
        """Start at 0."""
        self.frames_sent = self.bytes_sent = self.frames_received = self.bytes_received = 0

    def sent(self, size: int) -> None:
        """Count a sent frame."""
        self.frames_sent += 1
        self.bytes_sent += size

    def received(self, size: int) -> None:
        """Count a received frame."""
        self.frames_received += 1
        self.bytes_received += size
