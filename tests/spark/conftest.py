"""A Spark session and a cluster of three real nodes, each shared by all tests of this folder that ask for it."""

import os
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kvorum.cluster.local.local import LocalCluster
from kvorum.pipelines.bridge.transaction import member
from kvorum.pipelines.session.connector import VARIABLE, look_into
from tests.cluster.conftest import KEPT, clusters_in
from tests.cluster.nodes import addresses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TopicFactory = Callable[..., str]

# Out of the environment: a test that does not ask for these jars by name runs without them.
JARS = os.environ.pop(VARIABLE, None) or None


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, kvorum_cluster: LocalCluster) -> Iterator["SparkSession"]:
    """Return a local session of two cores. Skips with its reason where Java is not on the machine.

    It ends before the cluster, and so do this process's clients for marks: they report every lost connection on stderr.
    """
    if shutil.which("java") is None:
        pytest.skip("missing tool: java (17 or 21)")
    import pyspark
    from pyspark.sql import SparkSession

    from kvorum.pipelines.session.build import environment, unpacked_home

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("kvorum-tests")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
    )
    home = {} if "SPARK_HOME" in os.environ else {"SPARK_HOME": unpacked_home(Path(pyspark.__path__[0]))}
    with environment(home):
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    member.cache_clear()
    session.stop()


@pytest.fixture(scope="session")
def spark_jars() -> str:
    """Return the folder of Spark's connector, which `make spark-jars` fetches through Maven."""
    if JARS is None:
        pytest.skip(f"missing jars: {VARIABLE} names no folder (make spark-jars)")
    missing = look_into(JARS).missing
    if missing:
        pytest.skip(f"missing jars: {', '.join(missing)} in {JARS}")
    return JARS


@pytest.fixture(scope="session")
def kvorum_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Return three running nodes. Who kills one starts it again before he is done."""
    with clusters_in(tmp_path_factory.mktemp("cluster")) as start:
        yield start("three-nodes.yaml", KEPT)


@pytest.fixture(scope="session")
def bootstrap(kvorum_cluster: LocalCluster) -> str:
    """Return the addresses of the cluster's brokers."""
    return ",".join(addresses(kvorum_cluster).values())


@pytest.fixture
def make_topic(bootstrap: str) -> TopicFactory:
    """Return a function that creates a topic of a name of its own and returns the name."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def make(partitions: int = 2, prefix: str = "t", **config: str) -> str:
        name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        # Records of long ago are written, too: the cluster may be old enough to look for what retention says.
        settings = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in config.items()}
        topic = NewTopic(name, partitions, 3, config=settings)
        for future in admin.create_topics([topic], operation_timeout=30).values():
            future.result(60)
        return name

    return make
