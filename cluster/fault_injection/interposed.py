"""Interception between a process's listeners and its handlers: only if its configuration enables it.

In production it costs nothing: without `kvorum.chaos.listener` the modules are not imported.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kvorum.network.interposer import Interposer
from kvorum.runtime.config import Settings
from kvorum.runtime.listeners import chaos_listener


@asynccontextmanager
async def interposed(settings: Settings, role: str) -> AsyncIterator[Interposer | None]:
    """Yield the handler to interpose in the `broker` or `controller` process, None by default.

    Raises Refusal (its token), OSError (its port).
    """
    if chaos_listener(settings, role) is None:
        yield None
        return
    from kvorum.cluster.fault_injection.chaos_control import controlled

    async with controlled(settings, role) as injection:
        yield injection
