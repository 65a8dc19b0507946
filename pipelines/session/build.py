"""Build the Spark session of a pipeline: local unless a master is named, with what was found at hand.

Executors on other machines get Kvorum's own code as a zip that holds kvorum/pipelines as it is imported. In a checkout
the rooms lie at the top, without a folder kvorum/ (docs/decisions/0002), so the zip is made from where the package was
imported from, not by copying a folder. An entry for the folder kvorum/ itself is needed: without it Python's zip
importer finds no package that has no __init__. What we import from others (confluent-kafka, pyarrow, pandas) holds
machine code, and must be installed where executors run, or shipped with spark.archives.
"""

import atexit
import contextlib
import logging
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import py4j
import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

import kvorum.pipelines
from kvorum.pipelines.session import class_archive, machine
from kvorum.pipelines.session.connector import Choice, Wanted, choose, folder_of_jars, jars_of

logger = logging.getLogger(__name__)

ZIP = "kvorum-pipelines.zip"
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The same code makes the same bytes, whenever it is packed."""
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
DEFAULTS: Mapping[str, str] = {
    # The same file means the same everywhere, whatever the machine's own time zone is.
    "spark.sql.session.timeZone": "UTC",
    # Fields are told apart as Connect tells them apart, and JSON does.
    "spark.sql.caseSensitive": "true",
    # State beyond memory, and a commit that costs what changed, not what is there.
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    # Spark's default, and logins and keys of Kafka clients.
    "spark.redaction.regex": r"(?i)secret|password|token|access[.]?key|jaas|oauthbearer[.]config|(ssl|keystore)[.]key",
    "spark.ui.enabled": "false",
    # A bar that is drawn over itself, in a log.
    "spark.ui.showConsoleProgress": "false",
}
LOCAL: Mapping[str, str] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Spark looks for the interrupt in a stopped query's failure with a pattern that recurses at each character.
    "spark.driver.extraJavaOptions": "-Xss16m",
    # Spark's own 200 are for clusters: on one machine they are as many tasks and state stores of a few rows each.
    "spark.sql.shuffle.partitions": "4",
}
WITHOUT_JARS: Mapping[str, str] = {
    # pyspark's own jars have one extension that Spark loads by itself: MLlib's functions of vectors. It takes a third
    # of the start.
    "spark.sql.extensions.test.loadFromCp": "false",
}
JARS: Sequence[str] = ("spark.jars", "spark.jars.packages")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """How a session is to be."""

    master: str | None = None
    """spark://host:port, k8s://..., yarn, local[2]; None: spark-submit's, else every core of this machine."""
    memory: str = "1g"
    """The driver's heap; a local master's executors share it."""
    connector: Wanted = "auto"
    jars: str | None = None
    """A folder of jars, such as Spark's connector."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Spark's own settings; they win over ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A running session and the connector it was built for."""

    spark: SparkSession
    choice: Choice


def build(name: str, wanted: SessionSettings) -> Session:
    """Start a session, or take the one that runs in this process, and log which connector it has.

    Raises MachineError and ConnectorError, before anything is started.
    """
    java = machine.find_java()
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit started the JVM, and sets the master
    if not submitted and SparkSession.getActiveSession() is None:
        machine.check_memory(wanted.memory, machine.available_mib())
    folder = folder_of_jars(wanted.jars)
    choice = choose(wanted.connector, folder, wanted.settings)
    # Executors would take the python3 of their PATH, which need not have what we need, nor be of our version.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"kvorum-{name}")
    if not submitted:
        builder = builder.master(wanted.master or "local[*]").config("spark.driver.memory", wanted.memory)
    for key, value in spark_settings(wanted, folder, choice, submitted).items():
        builder = builder.config(key, value)
    is_first = not submitted and SparkContext._gateway is None
    if is_first and is_local(wanted.master or "local") and "SPARK_HOME" not in os.environ:
        spark = start_local(builder, java)
    else:
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    shipped = ", the package sent to its executors" if ship(spark) else ""
    master = spark.sparkContext.master
    logger.info("Spark %s on %s, Java %s (%s)%s", spark.version, master, java.version, java.path, shipped)
    logger.info("%s", choice)
    return Session(spark=spark, choice=choice)


def start_local(builder: SparkSession.Builder, java: machine.Java) -> SparkSession:
    """Start the JVM and the session, with an archive of Spark's classes, or to write one."""
    package = Path(pyspark.__path__[0])
    home = unpacked_home(package)
    archive, class_list = class_archive.archive_path(java, package), Path(home, "classes")
    options = class_archive.jvm_options(archive, class_list)
    variables = {
        "SPARK_HOME": home,
        "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),  # else Spark resolves the host's name
        "SPARK_SUBMIT_OPTS": class_archive.join_options(options),
    }
    with environment(variables):
        spark = builder.getOrCreate()
    system = cast("Any", spark.sparkContext._jvm).java.lang.System
    if class_list.exists():
        class_archive.start_writer(java, archive, class_list, system.getProperty("java.class.path"))
    elif options and "sharing" not in system.getProperty("java.vm.info"):
        logger.info("archive of Spark's classes ignored by the JVM: %s; delete it if it is damaged", archive)
    return spark


@contextlib.contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables for the JVM that starts inside, not for later children."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def unpacked_home(package: Path) -> str:
    """Return a folder for SPARK_HOME in which the archives of python/lib are the installed packages, by links.

    Spark's Python workers import pyspark and py4j from these archives, which have no compiled code: each compiles a
    hundred modules when it starts (0.5 s of CPU) and is 12 MB larger.
    """
    home = Path(tempfile.mkdtemp(prefix="kvorum-spark-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    libraries = home / "python" / "lib"
    installed = {"pyspark.zip": package}
    installed |= {path.name: Path(py4j.__path__[0]) for path in (package / "python" / "lib").glob("py4j-*.zip")}
    for name, path in installed.items():
        (libraries / name).mkdir(parents=True)
        (libraries / name / path.name).symlink_to(path)
    for path in (package / "bin", package / "jars", package / "conf"):
        if path.exists():  # conf/spark-defaults.conf is the user's
            (home / path.name).symlink_to(path)
    return str(home)


def spark_settings(wanted: SessionSettings, folder: str | None, choice: Choice, submitted: bool) -> dict[str, str]:
    """Return Spark's settings: ours, those of what is at hand, and over all of them the user's own."""
    settings = dict(DEFAULTS)
    jars = jars_of(folder)
    if not submitted and is_local(wanted.master or "local"):
        settings |= LOCAL
        if not jars and not any(key in wanted.settings for key in JARS):
            settings |= WITHOUT_JARS
    settings |= choice.settings
    settings |= wanted.settings
    if jars:
        settings["spark.jars"] = ",".join(filter(None, (wanted.settings.get("spark.jars"), *jars)))
    return settings


def pack(target: Path) -> Path:
    """Write the zip; return its path."""
    folder = Path(next(iter(kvorum.pipelines.__path__)))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr(zipfile.ZipInfo("kvorum/", EPOCH), "")
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                name = Path("kvorum", "pipelines", path.relative_to(folder)).as_posix()
                zipped.writestr(zipfile.ZipInfo(name, EPOCH), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return target


def is_local(master: str) -> bool:
    """Whether executors are threads of the driver, whose Python workers find the package where the driver did."""
    return master == "local" or master.startswith("local[")


def ship(spark: SparkSession) -> bool:
    """Send the package to the executors; return whether there was a need to.

    There is none where they have it: from `spark-submit --py-files`, or from an earlier try in this session.
    """
    context = spark.sparkContext
    if is_local(context.master or "local") or any(each.rpartition("/")[2] == ZIP for each in context.listFiles):
        return False
    folder = Path(tempfile.mkdtemp(prefix="kvorum-"))  # Spark serves it from there for as long as the session lives
    context.addPyFile(str(pack(folder / ZIP)))
    return True
