"""Kvorum's public Python API: administration of a Kafka cluster (docs/python-api.md).

async with Cluster.connect("localhost:9092") as cluster:
    await cluster.topics.create("orders", partitions=6, replication_factor=3)

with SyncCluster.connect("localhost:9092") as cluster:
    print(cluster.topics.describe("orders").partitions)
"""

from functools import cache
from importlib import import_module
from pathlib import Path


@cache
def public_names() -> dict[str, str]:
    """Return {public name: its module}, from the imports of __init__.pyi."""
    from ast import ImportFrom, parse

    imports = parse(Path(__file__).with_suffix(".pyi").read_text()).body
    return {each.name: str(node.module) for node in imports if isinstance(node, ImportFrom) for each in node.names}


def __getattr__(name: str) -> object:
    """Import a public name on first use, because commands import single modules of `client`."""
    if name == "__all__":
        return sorted(public_names())
    if name not in public_names():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(public_names()[name]), name)
