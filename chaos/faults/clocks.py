"""A node's wall clock, off by as much as a test wants (kvorum.runtime.clock.TEST_CLOCK), also while it runs."""

import os
from dataclasses import dataclass

from kvorum.runtime.clock import OFFSET_BYTES, TEST_CLOCK


@dataclass(frozen=True, slots=True)
class NodeClock:
    """The file from which all processes of a node read the offset of their clock."""

    path: str

    def create(self) -> None:
        """Create the file, with a correct clock; an existing one is kept."""
        if not os.path.exists(self.path):
            with open(self.path, "wb") as file:
                file.write(bytes(OFFSET_BYTES))

    def set(self, offset_ms: int) -> None:
        """Shift the clock ahead of (or behind) the true time."""
        with open(self.path, "r+b", buffering=0) as file:
            written = file.write(offset_ms.to_bytes(OFFSET_BYTES, "little", signed=True))
        assert written == OFFSET_BYTES, "one write of eight bytes: a reader sees the old offset or the new one"

    def get(self) -> int:
        """Return the clock's offset (ms)."""
        with open(self.path, "rb") as file:
            return int.from_bytes(file.read(OFFSET_BYTES), "little", signed=True)

    def environment(self) -> dict[str, str]:
        """Return the environment variable with which a process reads it."""
        return {TEST_CLOCK: self.path}
