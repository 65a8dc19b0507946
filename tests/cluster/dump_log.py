"""Apache Kafka's kafka-dump-log over a log's folder, where its jars are (KVORUM_KAFKA_JARS names their folder)."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kvorum.cluster.local.local import LocalCluster

JARS = os.environ.get("KVORUM_KAFKA_JARS", "")


def has_kafka() -> bool:
    """Return whether the tool is there."""
    return bool(JARS) and shutil.which("java") is not None


needs_kafka = pytest.mark.skipif(
    not has_kafka(), reason="run outside CI: needs java, and Apache Kafka's jars where KVORUM_KAFKA_JARS says"
)

COMPLAINTS = (
    "isvalid: false",
    "Mismatches in",
    "Could not",
    "Found timestamp mismatch",
    "Found out of order",
    "trailing",
)
"""What the tool says of a log that is not as it should be. Offsets that do not follow on are compaction's doing."""


def dump_log(folder: Path) -> str:
    """Return what the tool says of every segment and its indexes; fail where it complains."""
    return _said(folder, (".log", ".index", ".timeindex", ".txnindex"), "--deep-iteration")


def sanity_check(folder: Path) -> str:
    """Have the tool check the indexes by themselves; fail where it complains."""
    return _said(folder, (".index", ".timeindex"), "--index-sanity-check")


def _said(folder: Path, suffixes: tuple[str, ...], option: str) -> str:
    files = sorted(str(path) for path in folder.iterdir() if path.suffix in suffixes and path.stat().st_size)
    assert files or ".log" not in suffixes
    if not files:
        return ""
    command = ["java", "-cp", f"{JARS}/*", "org.apache.kafka.tools.DumpLogSegments", option]
    done = subprocess.run(
        [*command, "--files", ",".join(files)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    complaints = [line for line in done.stdout.splitlines() if any(each in line for each in COMPLAINTS)]
    assert not complaints, complaints[:10]
    return done.stdout


def dump_partition(cluster: LocalCluster, node: str, partition: str) -> str:
    """The same of a node's partition; the node must not run."""
    return dump_log(Path(cluster.node(node).data, partition))
