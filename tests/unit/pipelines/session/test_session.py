"""What Spark needs of the machine, which connector is chosen, what is shipped: all without starting Spark."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

from kvorum.pipelines.session.build import (
    WITHOUT_JARS,
    SessionSettings,
    is_local,
    pack,
    spark_settings,
    unpacked_home,
)
from kvorum.pipelines.session.connector import ConnectorError, choose, folder_of_jars
from kvorum.pipelines.session.machine import (
    MachineError,
    available_mib,
    check_memory,
    examine,
    find_java,
    mebibytes,
)

VERSION = pyspark.__version__
JARS = (
    f"spark-sql-kafka-0-10_2.13-{VERSION}.jar",
    "kafka-clients-3.9.2.jar",
    "commons-pool2-2.13.1.jar",
    f"spark-token-provider-kafka-0-10_2.13-{VERSION}.jar",
)


def java_home(folder: Path, says: str) -> dict[str, str]:
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    return {"JAVA_HOME": str(folder), "PATH": ""}


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    folder = tmp_path / "jars"
    folder.mkdir()
    for name in JARS:
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(("says", "version"), [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "21"', 21)])
def test_java_is_found_with_its_version(tmp_path: Path, says: str, version: int) -> None:
    assert find_java(java_home(tmp_path, says)).version == version


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ('openjdk version "1.8.0_402"', "is Java 8; Spark requires 17 or 21"),
        ('openjdk version "25.0.2"', "is Java 25; Spark requires 17 or 21: set JAVA_HOME"),
        ("no idea", "returned no version"),
    ],
)
def test_a_java_that_does_not_fit_is_refused_with_what_to_do(tmp_path: Path, says: str, message: str) -> None:
    with pytest.raises(MachineError, match=message):
        find_java(java_home(tmp_path, says))


def test_no_java_at_all_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="java not found on PATH and JAVA_HOME is not set"):
        find_java({"PATH": str(tmp_path)})
    with pytest.raises(MachineError, match="JAVA_HOME names it"):
        find_java({"JAVA_HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("text", "mib"), [("1g", 1024), ("512m", 512), ("2GB", 2048), ("1048576k", 1024), ("1t", 2**20)]
)
def test_memory_is_read_as_spark_writes_it(text: str, mib: int) -> None:
    assert mebibytes(text) == mib


def test_a_driver_that_does_not_fit_is_refused_before_it_starts() -> None:
    check_memory("1g", 1500)
    check_memory("1g", None)
    with pytest.raises(MachineError, match=r"1g and 384 MiB beside it need 1408 MiB, and 1400 MiB are free"):
        check_memory("1g", 1400)


def test_memory_is_the_containers_where_that_is_less(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9000000 kB\nMemAvailable: 4096000 kB\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert available_mib(str(tmp_path / "meminfo"), str(tmp_path)) == 4000
    (tmp_path / "memory.max").write_text(f"{2**30}\n")
    (tmp_path / "memory.current").write_text(f"{2**29}\n")
    assert available_mib(str(tmp_path / "meminfo"), str(tmp_path)) == 512


def test_kvorums_connector_runs_where_no_jars_are_at_hand() -> None:
    choice = choose("auto", None, {})
    assert choice.connector == "kvorum" and "KVORUM_SPARK_JARS names no folder" in choice.reason


def test_sparks_connector_runs_where_its_jars_are(jars: Path) -> None:
    choice = choose("auto", str(jars), {})
    assert str(choice) == f"connector: spark, auto: jars of {jars}"
    assert choose("kvorum", str(jars), {}).connector == "kvorum"
    assert folder_of_jars(None, {"KVORUM_SPARK_JARS": str(jars)}) == str(jars)
    assert folder_of_jars("/other", {"KVORUM_SPARK_JARS": str(jars)}) == "/other"


def test_a_connector_of_another_version_is_taken_and_said(jars: Path) -> None:
    (jars / JARS[0]).rename(jars / "spark-sql-kafka-0-10_2.13-4.1.3.jar")
    assert f"version 4.1.3 on Spark {VERSION}" in choose("auto", str(jars), {}).reason


@pytest.mark.parametrize("missing", JARS)
def test_half_a_connector_is_none(jars: Path, missing: str) -> None:
    (jars / missing).unlink()
    prefix = missing.rpartition("-")[0]
    choice = choose("auto", str(jars), {})
    assert choice.connector == "kvorum" and f"{jars} lacks {prefix}" in choice.reason
    with pytest.raises(ConnectorError, match=f"required, but .* lacks {prefix}"):
        choose("spark", str(jars), {})


def test_sparks_connector_is_fetched_only_when_it_is_asked_for() -> None:
    choice = choose("spark", None, {"spark.jars.packages": "a:b:1"})
    assert choice.settings == {"spark.jars.packages": f"a:b:1,org.apache.spark:spark-sql-kafka-0-10_2.13:{VERSION}"}
    assert "fetched from Maven" in choice.reason
    named = choose("auto", None, {"spark.jars.packages": f"org.apache.spark:spark-sql-kafka-0-10_2.13:{VERSION}"})
    assert named.connector == "spark" and not named.settings


def test_a_session_has_ours_what_is_at_hand_and_over_it_the_users(jars: Path) -> None:
    wanted = SessionSettings(settings={"spark.sql.session.timeZone": "Europe/Berlin", "spark.jars": "/mine.jar"})
    found = spark_settings(wanted, str(jars), choose("auto", str(jars), {}), submitted=False)
    assert found["spark.sql.session.timeZone"] == "Europe/Berlin"
    assert found["spark.jars"].startswith("/mine.jar,") and found["spark.jars"].count(".jar") == 5
    assert "RocksDB" in found["spark.sql.streaming.stateStore.providerClass"]
    assert not set(WITHOUT_JARS) & set(found), "a jar may have an extension that Spark loads by itself"
    assert set(WITHOUT_JARS) <= set(spark_settings(SessionSettings(), None, choose("auto", None, {}), submitted=False))
    far = spark_settings(SessionSettings(master="yarn"), None, choose("kvorum", None, {}), submitted=False)
    assert "spark.driver.host" not in far and "spark.sql.shuffle.partitions" not in far


def test_the_zip_is_imported_by_a_python_that_has_no_kvorum(tmp_path: Path) -> None:
    """As on an executor of another machine: the zip is all there is of us."""
    packed = pack(tmp_path / "kvorum.zip")
    names = zipfile.ZipFile(packed).namelist()
    assert "kvorum/pipelines/__init__.py" in names and "kvorum/" in names
    assert not [name for name in names if "__pycache__" in name or not name.startswith("kvorum/")]
    code = "import kvorum.pipelines as p, sys; print(p.__file__); import kvorum.pipelines.databases.dialect"
    away = {**os.environ, "PYTHONPATH": str(packed), "PYTHONNOUSERSITE": "1"}
    blocked = "import sys; sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in repr(f).lower()]; " + code
    found = subprocess.run(
        [sys.executable, "-c", blocked], env=away, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert found.stdout.strip() == f"{packed}/kvorum/pipelines/__init__.py", found.stderr


def test_the_same_code_makes_the_same_zip(tmp_path: Path) -> None:
    first, second = (pack(tmp_path / name).read_bytes() for name in ("a.zip", "b.zip"))
    assert first == second


@pytest.mark.parametrize(("master", "local"), [("local", True), ("local[2]", True), ("local-cluster[2,1,512]", False)])
def test_only_threads_of_the_driver_need_no_zip(master: str, local: bool) -> None:
    assert is_local(master) is local


def test_the_doctor_says_what_is_there_and_what_is_missing(tmp_path: Path, jars: Path) -> None:
    (jars / JARS[1]).unlink()
    found = {row["what"]: row for row in examine("1g", str(jars), {"PATH": str(tmp_path)})}
    assert found["java"]["state"] == "missing" and "apt-get install" in found["java"]["hint"]
    assert (found["pyspark"]["found"], found["pyspark"]["state"]) == (VERSION, "ok")
    assert found["connector"]["found"] == "kvorum" and f"{jars} lacks kafka-clients" in found["connector"]["hint"]
    (nowhere,) = (row for row in examine("1g", str(tmp_path / "no"), {}) if row["what"] == "connector")
    assert nowhere["state"] == "missing" and "cannot be read: No such file or directory" in nowhere["hint"]


def test_workers_import_pyspark_compiled_and_not_from_its_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark puts $SPARK_HOME/python/lib/pyspark.zip first on the path of its Python workers."""
    home = unpacked_home(Path(pyspark.__path__[0]))
    command = "import pyspark, py4j; print(pyspark.__file__, py4j.__file__)"
    libraries = [f"{home}/python/lib/pyspark.zip", str(next(Path(home, "python", "lib").glob("py4j-*.zip")))]
    environment = {"PYTHONPATH": ":".join(libraries)}
    found = subprocess.run([sys.executable, "-c", command], env=environment, capture_output=True, text=True)
    files = [f"{libraries[0]}/pyspark/__init__.py", f"{libraries[1]}/py4j/__init__.py"]
    assert found.stdout.split() == files, found.stderr
    assert all(Path(file).is_file() for file in files)  # not members of an archive
    assert (Path(home) / "bin" / "spark-submit").is_file() and any(Path(home, "jars").glob("spark-core_*.jar"))


def test_defaults_that_the_user_put_beside_pyspark_stay_in_force(tmp_path: Path) -> None:
    """Spark reads $SPARK_HOME/conf/spark-defaults.conf."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.local.dir /data\n", encoding="utf-8")
    assert Path(unpacked_home(tmp_path), "conf", "spark-defaults.conf").read_text("utf-8") == "spark.local.dir /data\n"
