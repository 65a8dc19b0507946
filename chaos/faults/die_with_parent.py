"""`python -m kvorum.chaos.faults.die_with_parent PARENT COMMAND...`: become a command that ends with PARENT.

For programs that do not set it themselves, as Kvorum's own processes do.
"""

import os
import sys

from kvorum.runtime.process import die_with_parent


def die_with_parent_command(command: list[str]) -> list[str]:
    """Return the command line that runs a command in this way, as a child of this process."""
    return [sys.executable, "-m", "kvorum.chaos.faults.die_with_parent", str(os.getpid()), *command]


def main() -> None:
    """Set the signal with the kernel, then become the command."""
    die_with_parent(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
