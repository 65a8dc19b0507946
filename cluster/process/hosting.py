"""Common parts of every role's process: event loop, pid file, signals, metrics, exit code."""

import asyncio
import errno
import gc
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Any, Final, NoReturn

import uvloop

from kvorum.cluster.local.paths import NodePaths
from kvorum.cluster.process import readiness
from kvorum.cluster.process.exits import Exit, fault_exit, leave_full_note
from kvorum.network.cluster_check import WrongCluster
from kvorum.network.dial import ChannelError
from kvorum.protocol.errors import KafkaError
from kvorum.quorum.metadata_store import MetadataMismatch
from kvorum.quorum.raft.journal_format import JournalCorrupt
from kvorum.quorum.raft.log import MetadataLogError
from kvorum.quorum.raft.snapshot import SnapshotCorrupt
from kvorum.runtime.config import ConfigError
from kvorum.runtime.disk import RESERVED_DESCRIPTORS, reserve
from kvorum.runtime.logs import Logger, get_logger, keep_latest
from kvorum.runtime.process import remove_pid_file, write_pid_file

ADDRESS_IN_USE = 98
UNREAD: Final = ("never retrieved", "exception in shielded future")
"""asyncio's messages about a dropped future with an unread exception, and (Python 3.14) about a shielded one."""
YOUNG_OBJECTS_MAX: Final = 10_000
"""Number of new objects between two garbage collections; one of 10,000 takes about a millisecond.

With Python's 700 and some hundred requests in progress, collections took two fifths of the time of an offset commit."""
YOUNG_LOOKS_MAX: Final = 3
"""Objects that survived this many collections are checked together, each once whatever the number.

With Python's 10 that held the loop for 30 to 70 ms while thousands of partitions were created.
"""
OLDER_LOOKS_MAX: Final = 33
"""Number of those until a full collection, if it has grown by a quarter: after as many new objects as with 10 times 10.
"""

EXPECTED: Final = (
    *(OSError, KafkaError, ChannelError, MetadataLogError),
    *(WrongCluster, JournalCorrupt, SnapshotCorrupt, MetadataMismatch),
)
"""Exceptions whose cause is a disk, a peer, a lost leadership, or data that a person has to look at."""
WAITING_SECONDS: Final = 3.0
"""A process that is not ready after this time reports why. An election or a restart takes less."""
REPEAT_SECONDS: Final = 60.0
"""Until the same reason is logged again."""

log = get_logger("cluster")


class Refusal(Exception):
    """The process must not run; the exit code tells its supervisor whether to restart it."""

    def __init__(self, code: Exit, reason: str) -> None:
        """Store the exit code and the message for the operator."""
        super().__init__(reason)
        self.code = code
        self.reason = reason


class StopReason:
    """Reason of an orderly stop: a signal, or the environment. The first reason counts."""

    def __init__(self) -> None:
        """Start without a reason. Made inside the running loop."""
        self._reason: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()

    def request_stop(self) -> None:
        """End in order."""
        if not self._reason.done():
            self._reason.set_result(Exit.DONE)

    def fault(self, error: BaseException, folder: str) -> None:
        """End at once: further answers could be wrong. `folder` is the data directory of the process."""
        code, reason = fault_exit(error, folder)
        leave_full_note(error)
        if code is Exit.FATAL and not is_expected(error):
            log.unexpected("process", error)
        else:
            log.error("process stops after a fatal error", reason=reason)
        crash(code)

    def refuse(self, code: Exit, reason: str) -> None:
        """End because the environment does not permit to continue (all log directories offline)."""
        log.error("process stops", reason=reason)
        if not self._reason.done():
            self._reason.set_result(code)

    async def wait(self) -> Exit:
        """Return the exit code once there is a reason."""
        return await self._reason


@asynccontextmanager
async def report_waiting(
    log: Logger, not_ready: Callable[[], str | None], changed: asyncio.Event | None = None
) -> AsyncIterator[None]:
    """Log and report to the parent why this process is not ready, if that lasts WAITING_SECONDS or more.

    A ready process is checked again when `changed` is set. Without `changed` it stays ready.
    """
    task = asyncio.get_running_loop().create_task(_report_while_waiting(log, not_ready, changed or asyncio.Event()))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _report_while_waiting(log: Logger, not_ready: Callable[[], str | None], changed: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    reported, repeat_at = "", 0.0
    while True:
        changed.clear()
        if not_ready() is None:
            reported = ""
            await changed.wait()
            continue
        await asyncio.sleep(WAITING_SECONDS)
        reason = not_ready()
        if reason is not None and (reason != reported or loop.time() >= repeat_at):
            reported, repeat_at = reason, loop.time() + REPEAT_SECONDS
            log.warning("not ready yet", reason=reason)
            readiness.report(reason)


def crash(code: Exit) -> NoReturn:
    """End immediately, as by kill -9: after a broken invariant nothing may be written or sent any more."""
    os._exit(code)


def handle_loop_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """End the process after an exception that no code handled. The supervisor starts it again.

    A future that was dropped with its exception unread does not end the process, because no state depends on it.
    """
    error, what = context.get("exception"), str(context.get("message"))
    if error is None or is_harmless(what, error):
        log.warning("event loop exception ignored", what=what, error=error)
        return
    log.unexpected("event loop", error, what=what)
    if not is_unread(what):
        crash(Exit.CRASHED)


def is_harmless(what: str, error: BaseException) -> bool:
    """Return whether an exception passed to the loop's exception handler is an expected one that was not read."""
    return is_unread(what) and is_expected(error)


def is_expected(error: BaseException) -> bool:
    """Return whether an exception has a cause outside this process."""
    return isinstance(error, EXPECTED)


def is_unread(what: str) -> bool:
    """Return whether asyncio's message concerns an exception that was never retrieved."""
    return any(words in what for words in UNREAD)


def look_for_cycles_less() -> None:
    """Make garbage collection rarer, and exclude existing objects: modules, most of all."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, YOUNG_LOOKS_MAX, OLDER_LOOKS_MAX)


def only_os_error(error: Exception) -> OSError | None:
    """Return an OSError, or the first of a group that has nothing else (tasks that opened files); None for others."""
    if isinstance(error, ExceptionGroup):
        found = [only_os_error(each) for each in error.exceptions]
        return None if None in found else found[0]
    return error if isinstance(error, OSError) else None


def host(role: str, paths: NodePaths, serve: Callable[[StopReason, ExitStack], Awaitable[Exit]]) -> int:
    """Run a role's server to its end in an event loop; return the exit code."""

    async def main() -> Exit:
        loop = asyncio.get_running_loop()
        ending = StopReason()
        loop.set_exception_handler(handle_loop_exception)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ending.request_stop)
        with ExitStack() as stack:
            return await serve(ending, stack)

    keep_latest()
    reserve.fill(RESERVED_DESCRIPTORS)
    write_pid_file(paths.pid(role))
    look_for_cycles_less()
    try:
        return uvloop.run(main())
    except Refusal as refusal:
        log.error("process start failed", role=role, reason=refusal.reason)
        readiness.report_refusal(refusal.reason)
        return refusal.code
    except ConfigError as error:
        log.error("process start failed", role=role, reason=error)
        readiness.report_refusal(str(error))
        return Exit.CONFIG
    except Exception as error:
        failure = only_os_error(error)
        if failure is None and not is_expected(error):
            log.unexpected(role, error)
            readiness.report_refusal(f"{type(error).__name__}: {error}")
            return Exit.CRASHED
        number = None if failure is None else failure.errno
        advice = "; raise the limit of open files (ulimit -n, LimitNOFILE)" if number == errno.EMFILE else ""
        reason = f"{failure or error}{advice}"
        log.error("process start failed", role=role, reason=reason)
        readiness.report_refusal(reason)
        return Exit.BUSY if number == ADDRESS_IN_USE else Exit.CRASHED
    finally:
        remove_pid_file(paths.pid(role))
