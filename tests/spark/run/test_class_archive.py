"""A first session writes the archive of Spark's classes, a second one uses it, and a damaged one does no harm."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

SECONDS = 900.0
PROGRAM = """
import logging, sys, threading
from kvorum.pipelines.session import class_archive
from kvorum.pipelines.session.build import SessionSettings, build

logging.basicConfig(level=logging.INFO)
class_archive.SETTLE_SECONDS = 1.0
options = f"-Xss16m -Xlog:class+load:file={sys.argv[1]}"
session = build("archive", SessionSettings(settings={"spark.driver.extraJavaOptions": options}))
print(session.spark.range(10).selectExpr("sum(id) AS total").collect())
for thread in threading.enumerate():
    if thread.name == "class-archive":
        thread.join()
session.spark.stop()
"""


def source_of_classes(tmp_path: Path) -> tuple[str, str]:
    """Run a session; return where the JVM took Spark's context from, and the process's log lines."""
    log = tmp_path / "loaded"
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-c", PROGRAM, str(log)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines()[-1] == "[Row(total=45)]"
    (line,) = (line for line in log.read_text().splitlines() if "org.apache.spark.SparkContext source:" in line)
    return line.partition("source: ")[2], found.stderr


def test_the_second_start_uses_the_archive_and_a_damaged_one_does_no_harm(tmp_path: Path) -> None:
    source, lines = source_of_classes(tmp_path)
    assert source.endswith(".jar") and "archive of Spark's classes written" in lines
    (archive,) = tmp_path.glob("cache/kvorum/spark-classes/*.jsa")
    source, lines = source_of_classes(tmp_path)
    assert source == "shared objects file" and "ignored by the JVM" not in lines
    archive.chmod(0o600)
    size = archive.stat().st_size
    with open(archive, "r+b") as file:  # within the classes: only the checksum shows it
        file.seek(size // 3)
        file.write(bytes(size // 3))
    source, lines = source_of_classes(tmp_path)
    assert source.endswith(".jar") and f"ignored by the JVM: {archive}" in lines
    os.truncate(archive, size // 2)
    source, lines = source_of_classes(tmp_path)
    assert source.endswith(".jar") and f"ignored by the JVM: {archive}" in lines
