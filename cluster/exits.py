"""What a process of ours means by its exit code: whether starting it again could help."""

from enum import IntEnum


class Exit(IntEnum):
    """Codes above 63 as sysexits.h names them."""

    DONE = 0
    CRASHED = 1
    USAGE = 64
    DATA_REFUSED = 65
    """Data that must not be started on: another cluster's id, a damaged journal, all log directories offline."""
    BUSY = 69
    """Another process has the directory or the port."""
    FATAL = 70
    """A broken invariant: an unknown metadata record, two different batches at one offset."""
    CONFIG = 78


def restart_helps(code: int) -> bool:
    """Tell whether a supervisor should start a child again that ended with this code (negative: by that signal)."""
    return code not in (Exit.DONE, Exit.USAGE, Exit.DATA_REFUSED, Exit.BUSY, Exit.FATAL, Exit.CONFIG)
