"""The synchronous API has the methods of the asynchronous one, and works without and beside a running event loop."""

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from kvorum.client import Cluster, SyncCluster, Unreachable
from kvorum.client.loop_thread import LoopThread
from tests.unit.admin.managed import ManagedCluster

ROOT = Path(__file__).parent.parent.parent.parent


def test_the_file_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "tools" / "generate_sync.py"), "--check"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


def test_calls_wait_for_the_result() -> None:
    with SyncCluster(Cluster(ManagedCluster())) as cluster:
        cluster.topics.create("orders", partitions=2)
        assert [topic.name for topic in cluster.topics.list()] == ["orders"]


def test_it_works_beside_a_running_loop() -> None:
    async def run() -> None:
        with SyncCluster(Cluster(ManagedCluster())) as cluster:
            assert not cluster.topics.list()

    asyncio.run(run())


def test_an_unreachable_cluster_is_an_error_of_connect() -> None:
    client = ManagedCluster()
    client.reachable = False
    with pytest.raises(Unreachable):
        SyncCluster(Cluster(client))
    assert client.closed


def test_a_closed_cluster_refuses_calls() -> None:
    cluster = SyncCluster(Cluster(ManagedCluster()))
    cluster.close()
    cluster.close()
    with pytest.raises(RuntimeError, match="closed"):
        cluster.topics.list()


def test_the_end_cancels_a_call_of_another_thread() -> None:
    loop, begun, ends = LoopThread(), threading.Event(), list[str]()

    async def wait_for_ever() -> None:
        begun.set()
        await asyncio.Event().wait()

    def call() -> None:
        try:
            loop.run(wait_for_ever())
        except CancelledError:
            ends.append("cancelled")

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    assert begun.wait(10)
    loop.close()
    thread.join(10)
    assert ends == ["cancelled"]
