"""The archive of Spark's classes: its key, the JVM's options, the moment it is written, and how; `java` is a script."""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvorum.pipelines.session import class_archive, machine
from kvorum.pipelines.session.class_archive import (
    ARCHIVES_MAX,
    SETTLE_ATTEMPTS,
    TASK,
    ArchiveError,
    archive_path,
    join_options,
    jvm_options,
    remove_old,
    wait_for_classes,
    write_archive,
)

JAVA = machine.Java("/usr/bin/java", 17, 'openjdk version "17.0.15"')
WRITE = 'for each in "$@"; do case "$each" in -XX:SharedArchiveFile=*) file="${each#*=}";; esac; done\n'


@pytest.fixture(autouse=True)
def enough_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "available_mib", lambda: 10_000)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "pyspark" / "jars").mkdir(parents=True)
    (tmp_path / "pyspark" / "jars" / "spark-core.jar").write_bytes(b"classes")
    return tmp_path / "pyspark"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache" / "key.jsa"


def script(folder: Path, lines: str) -> machine.Java:
    path = folder / "java"
    path.write_text(f"#!/bin/sh\n{WRITE}{lines}\n")
    path.chmod(0o755)
    return machine.Java(str(path), 17)


def test_another_java_another_jar_and_another_environment_have_other_archives(tmp_path: Path, package: Path) -> None:
    variables = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    jar = package / "jars" / "spark-core.jar"

    def paths() -> Iterator[Path]:
        yield archive_path(JAVA, package, variables)
        yield archive_path(JAVA._replace(build='openjdk version "17.0.16"'), package, variables)
        yield archive_path(JAVA._replace(path="/opt/java"), package, variables)
        os.utime(jar, ns=(1, 1))
        yield archive_path(JAVA, package, variables)
        jar.write_bytes(b"other classes")
        os.utime(jar, ns=(1, 1))
        yield archive_path(JAVA, package, variables)
        (package / "jars" / "another.jar").touch()
        yield archive_path(JAVA, package, variables)
        yield archive_path(JAVA, tmp_path / "other", variables)

    found = list(paths())
    assert len(set(found)) == len(found)
    assert {path.parent for path in found} == {tmp_path / "cache" / "kvorum" / "spark-classes"}
    assert archive_path(JAVA, package, variables) == archive_path(JAVA, package, variables)


def test_the_jvm_lists_its_classes_until_there_is_an_archive_and_uses_it_checked(tmp_path: Path) -> None:
    archive, classes = tmp_path / "cache" / "kvorum" / "key.jsa", tmp_path / "classes"
    assert jvm_options(archive, classes) == [f"-XX:DumpLoadedClassList={classes}"]
    assert archive.parent.stat().st_mode & 0o777 == 0o700
    archive.touch()
    os.utime(archive, (1, 1))
    assert jvm_options(archive, classes) == [f"-XX:SharedArchiveFile={archive}", "-XX:+VerifySharedSpaces"]
    assert time.time() - archive.stat().st_mtime < 3600  # its last use, by which old ones are deleted


def test_a_cache_that_cannot_be_written_or_named_leaves_the_jvm_without_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    assert jvm_options(tmp_path / "file" / "key.jsa", tmp_path / "classes") == []
    assert jvm_options(tmp_path / "a:b" / "key.jsa", tmp_path / "classes") == []
    assert jvm_options(Path("~/.cache/key.jsa"), tmp_path / "classes") == []
    (tmp_path / "key.jsa").touch()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert jvm_options(tmp_path / "other.jsa", tmp_path / "classes") == []
    assert "-XX:+VerifySharedSpaces" in jvm_options(tmp_path / "key.jsa", tmp_path / "classes")  # read only: it is used
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    (tmp_path / "key.jsa").stat()
    monkeypatch.setattr(Path, "stat", lambda self: os.stat_result((0o100644, 1, 1, 1, 4712, 1, 1, 1, 1, 1)))
    assert jvm_options(tmp_path / "key.jsa", tmp_path / "classes") == []  # another user's code is not loaded


def test_the_users_own_options_come_last_and_win() -> None:
    assert join_options(["-XX:A=/a b"], {"SPARK_SUBMIT_OPTS": "-Xshare:off"}) == "'-XX:A=/a b' -Xshare:off"
    assert join_options([], {}) == ""


def test_the_list_is_complete_when_a_task_has_run_and_no_class_is_loaded(tmp_path: Path) -> None:
    classes = tmp_path / "classes"
    states = [b"a\n", b"a\n", b"a\n" + TASK + b"\n", b"a\n" + TASK + b"\nb\n", b"a\n" + TASK + b"\nb\nhal", b"never"]
    reads = iter(states[:5] + states[4:])
    assert wait_for_classes(classes, lambda seconds: void(classes.write_bytes(next(reads)))) == states[3]
    assert next(reads) == b"never"


def test_without_a_task_there_is_no_list(tmp_path: Path) -> None:
    (tmp_path / "classes").write_bytes(b"java/lang/Object\n")
    waits: list[float] = []
    assert wait_for_classes(tmp_path / "classes", waits.append) is None
    assert len(waits) == SETTLE_ATTEMPTS


def test_readers_see_the_whole_archive_or_none(tmp_path: Path, archive: Path) -> None:
    (archive.parent / "new").write_text("of a process that was killed")
    java = script(tmp_path, f'test -e "$file" && exit 3; printf half > "$file"; ls {archive.parent} > {tmp_path}/seen')
    write_archive(java, archive, tmp_path / "classes", "/a.jar")
    assert (tmp_path / "seen").read_text().split() == ["lock", "new"]
    assert archive.read_text() == "half"
    assert not (archive.parent / "new").exists()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('printf half > "$file"; echo "no space left"; exit 1', "java ended with 1: no space left"),
        ('head -c 100 /dev/zero > "$file"', "its 100 bytes are more than 99"),
    ],
)
def test_a_write_that_fails_leaves_nothing(
    tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch, lines: str, message: str
) -> None:
    monkeypatch.setattr(class_archive, "ARCHIVE_BYTES_MAX", 99)
    with pytest.raises(ArchiveError, match=message):
        write_archive(script(tmp_path, lines), archive, tmp_path / "classes", "/a.jar")
    assert [path.name for path in archive.parent.iterdir()] == ["lock"]


def test_one_process_writes_and_only_once(tmp_path: Path, archive: Path) -> None:
    java = script(tmp_path, f'echo x >> {tmp_path}/runs; echo x > "$file"')
    with open(archive.parent / "lock", "ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        write_archive(java, archive, tmp_path / "classes", "/a.jar")
        assert not archive.exists()
    for _ in range(2):
        write_archive(java, archive, tmp_path / "classes", "/a.jar")
    assert (tmp_path / "runs").read_text() == "x\n"


def test_a_machine_short_of_memory_gets_no_archive(
    tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "available_mib", lambda: 1000)
    with pytest.raises(ArchiveError, match="1000 MiB of memory are available, 1536 are needed"):
        write_archive(script(tmp_path, 'echo x > "$file"'), archive, tmp_path / "classes", "/a.jar")
    assert not archive.exists()


def test_no_jvm_is_started_for_a_class_path_that_it_would_refuse(tmp_path: Path, archive: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").touch()
    java = script(tmp_path, f'touch {tmp_path}/started; echo x > "$file"')
    with pytest.raises(ArchiveError, match="conf on the class path is a folder with files"):
        write_archive(java, archive, tmp_path / "classes", f"{tmp_path}/empty:{tmp_path}/conf:/a.jar")
    assert not (tmp_path / "started").exists()
    write_archive(java, archive, tmp_path / "classes", f"{tmp_path}/empty:/a.jar")
    assert archive.exists()


def test_the_writing_jvm_ends_with_its_process_and_holds_the_lock_until_then(tmp_path: Path, archive: Path) -> None:
    java = script(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 600")
    program = f"""
import threading, time, pathlib
from kvorum.pipelines.session import class_archive as c, machine
machine.available_mib = lambda: None
args = machine.Java({java.path!r}, 17), pathlib.Path({str(archive)!r}), pathlib.Path("classes"), "/a.jar"
threading.Thread(target=c.write_archive, args=args, daemon=True).start()
pid = pathlib.Path({str(tmp_path)!r}, "pid")
while not (pid.exists() and pid.read_text()):
    time.sleep(0.01)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    deadline = time.monotonic() + 10
    with open(archive.parent / "lock", "ab") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                assert time.monotonic() < deadline
                time.sleep(0.01)


def test_the_archives_used_last_are_kept(tmp_path: Path) -> None:
    for number in range(ARCHIVES_MAX + 2):
        (tmp_path / f"{number}.jsa").touch()
        os.utime(tmp_path / f"{number}.jsa", (100 - number, 100 - number))
    (tmp_path / "lock").touch()
    remove_old(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"lock", *(f"{n}.jsa" for n in range(ARCHIVES_MAX))}


def void(result: object) -> None:
    """Take a result that is not needed."""
