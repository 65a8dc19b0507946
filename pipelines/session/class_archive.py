"""Archive of Spark's classes for the JVM (class data sharing), in the user's cache directory.

    no archive -> the JVM lists the classes that it loads (-XX:DumpLoadedClassList)
    -> a task has run and the list does not grow -> a second JVM at the lowest priority writes the archive -> rename
    archive -> the JVM maps it instead of reading, parsing and verifying 13,000 classes: 40 % of the CPU time of a start

The JVM compares the archive's checksums, its own build, and the size and time of each jar of the class path. It starts
without the archive if one of them differs.
"""

import atexit
import fcntl
import hashlib
import logging
import os
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pyspark

from kvorum.pipelines.session import machine

logger = logging.getLogger(__name__)

ARCHIVES_MAX = 3
"""Least recently used ones are deleted: an environment that was removed, a former Java or Spark."""
ARCHIVE_BYTES_MAX = 384 * 1024 * 1024
"""Spark's classes take 150 to 180 MB."""
HEAP_MIB = 256
AVAILABLE_MIB = 1536
"""The writing JVM takes 800 MiB for half a minute. With less than this available no archive is written."""
SETTLE_SECONDS = 10.0
SETTLE_ATTEMPTS = 60
WRITE_SECONDS = 1800.0
TASK = rb"org/apache/spark/executor/Executor$TaskRunner"
"""This class is loaded by the first task, after those that plan a query."""


class ArchiveError(Exception):
    """The archive was not written; the message has the reason."""


def archive_path(java: machine.Java, package: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the archive for a Java and an installed pyspark. Another build or jar has another path."""
    base = environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    jars = sorted((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in package.glob("jars/*.jar"))
    key = repr((os.path.realpath(java.path), java.build, pyspark.__version__, str(package), jars))
    return Path(base) / "kvorum" / "spark-classes" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.jsa"


def jvm_options(archive: Path, class_list: Path) -> list[str]:
    """Return the options that use the archive; without one those that write the list; without a folder none."""
    if ":" in str(archive) or not archive.is_absolute():  # a colon separates two archives; no home directory
        return []
    try:
        if archive.exists():
            if archive.stat().st_uid not in (0, os.getuid()):
                raise PermissionError(f"{archive} belongs to another user")
            if os.access(archive.parent, os.W_OK):
                os.utime(archive)  # the least recently used ones are deleted
            return [f"-XX:SharedArchiveFile={archive}", "-XX:+VerifySharedSpaces"]
        archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if archive.parent.stat().st_uid != os.getuid() or not os.access(archive.parent, os.W_OK):
            raise PermissionError(f"{archive.parent} cannot be written")
    except OSError as error:
        logger.debug("no archive of Spark's classes: %s", error)
        return []
    return [f"-XX:DumpLoadedClassList={class_list}"]


def join_options(options: list[str], environment: Mapping[str, str] = os.environ) -> str:
    """Return SPARK_SUBMIT_OPTS, which spark-submit gives to the JVM, with the options before the user's own."""
    return " ".join([*map(shlex.quote, options), environment.get("SPARK_SUBMIT_OPTS", "")]).strip()


def start_writer(java: machine.Java, archive: Path, class_list: Path, class_path: str) -> None:
    """Write the archive in a thread, for the JVM that writes the list. A failure leaves a log line."""

    def run() -> None:
        try:
            classes = wait_for_classes(class_list)
            if classes is not None:
                settled = class_list.with_suffix(".settled")  # the JVM continues to write its own
                settled.write_bytes(classes)
                write_archive(java, archive, settled, class_path)
        except (OSError, ArchiveError) as error:
            logger.info("no archive of Spark's classes, starts stay slower: %s", error)

    threading.Thread(target=run, name="class-archive", daemon=True).start()


def wait_for_classes(class_list: Path, sleep: Callable[[float], None] = time.sleep) -> bytes | None:
    """Return the list's whole lines once a task has run and no class was loaded for a while; None without a task."""
    classes, size = b"", -1
    for _ in range(SETTLE_ATTEMPTS):
        sleep(SETTLE_SECONDS)
        classes = class_list.read_bytes()
        if TASK in classes and len(classes) == size:
            break
        size = len(classes)
    return classes[: classes.rfind(b"\n") + 1] if TASK in classes else None


def write_archive(java: machine.Java, archive: Path, class_list: Path, class_path: str) -> None:
    """Write the archive, unless another process does. Readers see all of it or none. Raises OSError, ArchiveError."""
    with open(archive.parent / "lock", "ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if archive.exists():
            return
        available = machine.available_mib()
        if available is not None and available < AVAILABLE_MIB:
            raise ArchiveError(f"{available} MiB of memory are available, {AVAILABLE_MIB} are needed")
        new = archive.parent / "new"  # the lock's holder is its only writer: what an earlier one left is replaced
        new.unlink(missing_ok=True)
        try:
            # The JVM inherits the lock: it is held until no process writes the file, whatever this one's end is.
            dump(java, new, class_list, class_path, lock.fileno())
            if new.stat().st_size > ARCHIVE_BYTES_MAX:
                raise ArchiveError(f"its {new.stat().st_size} bytes are more than {ARCHIVE_BYTES_MAX}")
            with open(new, "rb") as file:
                os.fsync(file.fileno())
            new.rename(archive)
        finally:
            new.unlink(missing_ok=True)
        logger.info("archive of Spark's classes written: %s", archive)
        remove_old(archive.parent)


def dump(java: machine.Java, new: Path, class_list: Path, class_path: str, lock: int) -> None:
    """Run the JVM that writes the archive. It ends with this process. Raises OSError, ArchiveError."""
    paths = list(map(os.path.realpath, class_path.split(":")))  # not this process's own links: they are removed
    for path in paths:
        if os.path.isdir(path) and os.listdir(path):  # the JVM would find it out at the end
            raise ArchiveError(f"{path} on the class path is a folder with files, the JVM archives jars only")
    command = ["nice", "-n", "19", java.path, "-Xshare:dump", f"-Xmx{HEAP_MIB}m", "-Xlog:disable", "-Xlog:all=error"]
    command += [f"-XX:SharedClassListFile={class_list}", f"-XX:SharedArchiveFile={new}", "-cp", ":".join(paths)]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, pass_fds=[lock]
    )
    atexit.register(process.kill)
    try:
        output, _ = process.communicate(timeout=WRITE_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise ArchiveError(f"java did not write it in {WRITE_SECONDS:g} s") from error
    finally:
        process.kill()
        process.wait()
        atexit.unregister(process.kill)
    if process.returncode != 0:
        raise ArchiveError(f"java ended with {process.returncode}: {' '.join(output.split())[:300]}")


def remove_old(folder: Path) -> None:
    """Delete all but the archives that were used last. A JVM that has mapped one is not disturbed."""
    archives = sorted(folder.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in archives[ARCHIVES_MAX:]:
        path.unlink(missing_ok=True)
