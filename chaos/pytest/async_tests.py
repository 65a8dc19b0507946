"""`KvorumCluster` for asyncio tests: `await cluster.aio.kill("node-1")`, `async with cluster.aio.pause("node-1"): ...`.

Every method runs in a thread, so that the test's event loop, with its clients, continues.
"""

import asyncio
from collections.abc import Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvorum.chaos.pytest.cluster import KvorumCluster


class Call:
    """One call: await it, or, where it returns a fault, make it a block that ends the fault."""

    __slots__ = ("_fault", "_function")

    def __init__(self, function: Callable[[], Any]) -> None:
        """Store the call, which starts when it is awaited or entered."""
        self._function = function
        self._fault: Any = None

    def __await__(self) -> Generator[Any, None, Any]:
        """Return the method's result. Raises its errors."""
        return asyncio.to_thread(self._function).__await__()

    async def __aenter__(self) -> Any:
        """Start the fault."""
        self._fault = await self
        return self._fault

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """End the fault."""
        await asyncio.to_thread(self._fault.end)


class AsyncKvorumCluster:
    """See the module. It has the methods of `KvorumCluster`; attributes such as `bootstrap` are unchanged."""

    __slots__ = ("_cluster",)

    def __init__(self, cluster: "KvorumCluster") -> None:
        """Wrap a cluster."""
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        """Return an attribute, or a function that returns a Call of the method. Raises AttributeError."""
        found = getattr(self._cluster, name)
        if not callable(found):
            return found
        return lambda *arguments, **options: Call(lambda: found(*arguments, **options))
