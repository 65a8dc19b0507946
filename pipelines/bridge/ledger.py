"""Files of the exactly-once sink next to Spark's own files in a query's checkpoint.

    <checkpoint>/kvorum-sink/lineage            a number of its own: marks of another checkpoint are told by it
                            /prepared/<tasks>   how many tasks have marks, and where these lie; the highest counts
                            /batches/<id>       how the rows of a micro-batch are dealt out; there before any task runs
                            /rows/<id>-<number> the rows themselves, where only that makes the dealing out repeatable

Every file is written whole under another name, then renamed, and never changed. The file system is the one that Spark
keeps the checkpoint on, whichever that is.
"""

import json
import uuid
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import SparkSession

from kvorum.pipelines.bridge.marks import Places

FOLDER = "kvorum-sink"
BATCHES_KEPT = 3  # only the last can be replayed; the others are for people who look


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """How the rows of a micro-batch are dealt out to tasks."""

    batch_id: int
    layout: str  # a task's mark carries it
    tasks: int
    staged: str | None  # the folder with the rows, if they were staged


class Folder:
    """A folder of ours in a checkpoint; by default the sink's."""

    def __init__(self, spark: SparkSession, checkpoint: str, name: str = FOLDER) -> None:
        """Open the file system of the checkpoint."""
        gateway = spark.sparkContext._gateway
        assert gateway is not None and spark._jvm is not None, "a driver has a gateway"
        self.jvm: Any = spark._jvm
        self.root = f"{checkpoint.rstrip('/')}/{name}"
        self.checkpoint = checkpoint.rstrip("/")
        self.files: Any = self.path(checkpoint).getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())

    def path(self, name: str) -> Any:
        """Return a path for the file system."""
        return self.jvm.org.apache.hadoop.fs.Path(name)

    def read(self, name: str) -> str | None:
        """Return a file's text, or None if it is not there."""
        path = self.path(f"{self.root}/{name}")
        if not self.files.exists(path):
            return None
        stream = self.files.open(path)
        try:
            return str(self.jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a new file: it is there whole, or not."""
        path = self.path(f"{self.root}/{name}")
        draft = self.path(f"{path.getParent().toString()}/.{path.getName()}.{uuid.uuid4().hex}")
        stream = self.files.create(draft)
        stream.write(text.encode())
        stream.close()
        if not self.files.rename(draft, path):
            raise OSError(f"{path} was not written")

    def names(self, folder: str) -> list[str]:
        """Return the files in a folder of this one, hidden ones left out."""
        return self.listed(f"{self.root}/{folder}")

    def listed(self, folder: str) -> list[str]:
        """Return the files in any folder, hidden ones left out."""
        path = self.path(folder)
        if not self.files.exists(path):
            return []
        names = [str(status.getPath().getName()) for status in self.files.listStatus(path)]
        return sorted(name for name in names if not name.startswith((".", "_")))

    def remove(self, name: str) -> None:
        """Remove a file or a folder, if it is there."""
        self.files.delete(self.path(f"{self.root}/{name}"), True)


class Ledger:
    """Reads and writes the sink's files of one query."""

    def __init__(self, folder: Folder) -> None:
        """Take over what is there."""
        self.folder = folder
        lineage = folder.read("lineage")
        if lineage is None:
            lineage = uuid.uuid4().hex
            folder.write("lineage", lineage)
        self.lineage = lineage

    def prepared(self) -> tuple[int, str, int]:
        """Return for how many tasks marks were made, and their topic and span. (0, "", 0) before the first."""
        counts = [int(name) for name in self.folder.names("prepared")]
        text = self.folder.read(f"prepared/{max(counts)}") if counts else None
        if text is None:
            return 0, "", 0
        read = json.loads(text)
        return max(counts), str(read["topic"]), int(read["span"])

    def write_prepared(self, tasks: int, places: Places) -> None:
        """Note that the first `tasks` tasks have marks."""
        self.folder.write(f"prepared/{tasks}", json.dumps({"topic": places.topic, "span": places.span}))

    def manifest(self, batch_id: int) -> Manifest | None:
        """Return how a micro-batch was dealt out, if any of its tasks can have run."""
        text = self.folder.read(f"batches/{batch_id}")
        return None if text is None else Manifest(**json.loads(text))

    def write_manifest(self, manifest: Manifest) -> None:
        """Note how a micro-batch is dealt out. From here on its tasks may run."""
        self.folder.write(f"batches/{manifest.batch_id}", json.dumps(asdict(manifest)))

    def committed(self) -> int | None:
        """Return the last micro-batch that Spark's checkpoint has as committed."""
        names = [name for name in self.folder.listed(f"{self.folder.checkpoint}/commits") if name.isdecimal()]
        return max(map(int, names), default=None)

    def staging(self, batch_id: int) -> str:
        """Return a new folder for a micro-batch's rows."""
        return f"{self.folder.root}/rows/{batch_id}-{uuid.uuid4().hex[:8]}"

    def forget_before(self, batch_id: int) -> None:
        """Remove what no replay can ask for: everything of micro-batches that are done."""
        for name in self.folder.names("rows"):
            if int(name.partition("-")[0]) < batch_id:
                self.folder.remove(f"rows/{name}")
        for name in self.folder.names("batches"):
            if int(name) < batch_id - BATCHES_KEPT:
                self.folder.remove(f"batches/{name}")
