"""Files of the exactly-once sink beside Spark's own in a query's checkpoint.

    <checkpoint>/kvorum-sink/lineage            a random id: identifies the marks of this checkpoint
                            /prepared/<tasks>   number of tasks with marks, and their span; the highest counts
                            /batches/<id>       manifest of a micro-batch, written before its tasks run
                            /rows/<id>-<number> staged rows

Each file is written under another name, then renamed, and never changed. The file system is that of the checkpoint.
"""

import json
import uuid
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

FOLDER = "kvorum-sink"
BATCHES_KEPT = 3  # only the last can be replayed; the others are for inspection


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Distribution of the rows of a micro-batch over tasks."""

    batch_id: int
    layout: str  # also in the marks
    tasks: int
    staged: str | None  # the folder of staged rows


class Folder:
    """A folder in a checkpoint; by default the sink's."""

    def __init__(self, spark: SparkSession, checkpoint: str, name: str = FOLDER) -> None:
        """Open the file system of the checkpoint."""
        self.jvm: Any = spark._jvm
        self.checkpoint = checkpoint.rstrip("/")
        self.root = f"{self.checkpoint}/{name}"
        self.files: Any = self._path(checkpoint).getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())

    def _path(self, name: str) -> Any:
        return self.jvm.org.apache.hadoop.fs.Path(name)

    def read(self, name: str) -> str | None:
        """Return a file's text, or None without the file."""
        path = self._path(f"{self.root}/{name}")
        if not self.files.exists(path):
            return None
        stream = self.files.open(path)
        try:
            return str(self.jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a new file atomically."""
        path = self._path(f"{self.root}/{name}")
        draft = self._path(f"{path.getParent().toString()}/.{path.getName()}.{uuid.uuid4().hex}")
        stream = self.files.create(draft)
        stream.write(text.encode())
        stream.close()
        if not self.files.rename(draft, path):
            raise OSError(f"{path} was not written")

    def listed(self, folder: str) -> list[str]:
        """Return the files in any folder, sorted, without hidden ones."""
        path = self._path(folder)
        if not self.files.exists(path):
            return []
        names = [str(status.getPath().getName()) for status in self.files.listStatus(path)]
        return sorted(name for name in names if not name.startswith((".", "_")))

    def remove(self, name: str) -> None:
        """Remove a file or a folder, if it exists."""
        self.files.delete(self._path(f"{self.root}/{name}"), True)


class Ledger(Folder):
    """The sink's folder of one query. Opening it reads the lineage, or creates it."""

    def __init__(self, spark: SparkSession, checkpoint: str, name: str = FOLDER) -> None:
        """Read the lineage, or create it."""
        super().__init__(spark, checkpoint, name)
        lineage = self.read("lineage")
        self.lineage = uuid.uuid4().hex if lineage is None else lineage
        if lineage is None:
            self.write("lineage", self.lineage)

    def prepared(self) -> tuple[int, int]:
        """Return the number of tasks with marks, and their span. (0, 0) before the first."""
        tasks = max(map(int, self.listed(f"{self.root}/prepared")), default=0)
        text = self.read(f"prepared/{tasks}")
        return (0, 0) if text is None else (tasks, int(json.loads(text)["span"]))

    def manifest(self, batch_id: int) -> Manifest | None:
        """Return the manifest of a micro-batch; None: none of its tasks has run."""
        text = self.read(f"batches/{batch_id}")
        return None if text is None else Manifest(**json.loads(text))

    def committed(self) -> int | None:
        """Return the last micro-batch that Spark has committed."""
        return max((int(name) for name in self.listed(f"{self.checkpoint}/commits") if name.isdecimal()), default=None)

    def forget_before(self, batch_id: int) -> None:
        """Remove the files of earlier micro-batches, which are never replayed."""
        for name in self.listed(f"{self.root}/rows"):
            if int(name.partition("-")[0]) < batch_id:
                self.remove(f"rows/{name}")
        for name in self.listed(f"{self.root}/batches"):
            if int(name) < batch_id - BATCHES_KEPT:
                self.remove(f"batches/{name}")
