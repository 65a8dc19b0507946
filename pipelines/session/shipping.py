"""Kvorum's own code for executors on other machines: a zip that holds kvorum/pipelines as it is imported.

In a checkout the rooms lie at the top, without a folder kvorum/ (docs/decisions/0002), so the zip is made from where
the package was imported from, not by copying a folder. An entry for the folder kvorum/ itself is needed: without it
Python's zip importer finds no package that has no __init__. What we import from others (confluent-kafka, pyarrow,
pandas) holds machine code, and must be installed where executors run, or shipped with spark.archives.
"""

import tempfile
import zipfile
from pathlib import Path

from pyspark.sql import SparkSession

import kvorum.pipelines

ZIP = "kvorum-pipelines.zip"
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The same code makes the same bytes, whenever it is packed."""


def package_folder() -> Path:
    """Return the folder of kvorum.pipelines: the checkout's pipelines/, or the one in site-packages."""
    return Path(next(iter(kvorum.pipelines.__path__)))


def pack(target: Path) -> Path:
    """Write the zip; return its path."""
    folder = package_folder()
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
