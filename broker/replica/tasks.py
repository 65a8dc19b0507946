"""Tasks whose failure must be visible: an exception is reported to the loop's exception handler.

The composition root sets that handler to end the node: it cannot run without a fetcher or a housekeeping task that
failed with a bug.
"""

import asyncio
from collections.abc import Coroutine


def spawn(name: str, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
    """Run `work` as a task of the running loop, under a name."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    task.add_done_callback(_report)
    return task


def _report(task: asyncio.Task[None]) -> None:
    if task.cancelled():
        return
    error = task.exception()
    if error is not None:
        context = {"message": f"task {task.get_name()} failed", "exception": error, "task": task}
        task.get_loop().call_exception_handler(context)
