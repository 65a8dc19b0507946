"""Small files on whatever file system Spark reaches: a folder on this machine, HDFS, an object store."""

import uuid
from typing import Any

from pyspark.sql import SparkSession


class Store:
    """A folder."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        """Reach the file system; nothing is made yet."""
        assert spark._jvm is not None, "a driver has a gateway"
        self.root = root.rstrip("/")
        self._jvm: Any = spark._jvm
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        self._files: Any = self._path("").getFileSystem(conf)

    def url(self, name: str = "") -> str:
        """Return the full path of a file or folder, as Spark's readers and writers take it."""
        return f"{self.root}/{name}" if name else self.root

    def read(self, name: str) -> str | None:
        """Return a file's text, or None if it is not there."""
        path = self._path(name)
        if not self._files.exists(path):
            return None
        stream = self._files.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a file whole, in place of an older one."""
        path = self._path(name)
        draft = self._jvm.org.apache.hadoop.fs.Path(path.getParent(), f".{path.getName()}.{uuid.uuid4().hex}")
        stream = self._files.create(draft)
        stream.write(text.encode())
        stream.close()
        self._files.delete(path, False)
        if not self._files.rename(draft, path):
            raise OSError(f"{path} was not written")

    def names(self, folder: str = "") -> list[str]:
        """Return what is in a folder, without what begins with a dot; nothing for a folder that is not there."""
        path = self._path(folder)
        if not self._files.exists(path):
            return []
        return sorted(
            name
            for status in self._files.listStatus(path)
            if not (name := str(status.getPath().getName())).startswith(".")
        )

    def exists(self, name: str) -> bool:
        """Return whether there is such a file or folder."""
        return bool(self._files.exists(self._path(name)))

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that is in it."""
        self._files.delete(self._path(name), True)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.url(name))
