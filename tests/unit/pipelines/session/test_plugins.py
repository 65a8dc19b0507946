"""Plugins: a package outside the tree, as pip would have installed it, brings one of each kind."""

import sys
from pathlib import Path

import pytest

from kvorum.pipelines.plugins import Kind, PluginError, find, plugins, sink, source

CODE = '''
"""A package of somebody else's."""

from pydantic import BaseModel, ConfigDict
from pyspark.sql import functions as F

from kvorum.pipelines.sinks.writing import BatchSink


class Numbers:
    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")
        per_second: int = 1

    def read(self, spark, options, context):
        rows = spark.readStream.format("rate").option("rowsPerSecond", options.per_second).load()
        return rows.select(F.lit(None).cast("binary").alias("key"), F.struct("value").alias("value"))


class Memory(BatchSink):
    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")
        table: str

    def writer(self, frame, options, context):
        return lambda batch, batch_id: batch.select("value.*").createOrReplaceGlobalTempView(options.table)

'''
ENTRY_POINTS = """\
[kvorum.pipelines.sources]
numbers = acme_pipelines:Numbers
[kvorum.pipelines.sinks]
memory = acme_pipelines:Memory
broken = acme_pipelines:NotThere
"""


def install(folder: Path, name: str, entry_points: str, code: str = CODE) -> None:
    """Write a package as an installer leaves it: the module, and beside it what describes it."""
    info = folder / f"{name.replace('-', '_')}-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(entry_points)
    (folder / "acme_pipelines.py").write_text(code)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(tmp_path, "acme-pipelines", ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "acme_pipelines", raising=False)
    return tmp_path


def test_kvorums_own_are_there_by_name() -> None:
    assert {"topics", "files", "jdbc", "generator", "postgresql"} <= {p.name for p in plugins(Kind.SOURCE)}
    assert {"topics", "files", "jdbc", "console"} <= {p.name for p in plugins(Kind.SINK)}


def test_a_package_brings_its_own_by_entry_points(site: Path) -> None:
    found = find(Kind.SOURCE, "numbers")
    assert (found.package, found.version, found.target) == ("acme-pipelines", "1.2", "acme_pipelines:Numbers")
    assert "acme_pipelines" not in sys.modules, "imported when it is asked for, not when it is listed"
    assert source("numbers").Options().model_dump() == {"per_second": 1}
    assert sink("memory").Options(table="t").model_dump() == {"table": "t"}


def test_a_name_that_is_not_there_is_answered_with_those_that_are(site: Path) -> None:
    with pytest.raises(PluginError, match=r"unknown plugin 'number' in sources; available: .*files.*numbers"):
        source("number")


def test_what_cannot_be_imported_says_whose_it_is(site: Path) -> None:
    with pytest.raises(PluginError, match=r"'broken' cannot be loaded from .* of acme-pipelines 1\.2"):
        sink("broken")


@pytest.mark.parametrize("name", ["topics", "numbers"])
def test_a_name_belongs_to_one_package(site: Path, tmp_path: Path, name: str) -> None:
    """Neither Kvorum's own names nor another package's can be taken over."""
    install(site / "other", "other-pipelines", f"[kvorum.pipelines.sources]\n{name} = other:Source\n")
    sys.path.insert(0, str(site / "other"))
    try:
        with pytest.raises(PluginError, match=f"provide {name!r}"):
            list(plugins(Kind.SOURCE))
    finally:
        sys.path.remove(str(site / "other"))


def test_a_package_found_twice_counts_once(site: Path) -> None:
    sys.path.append(str(site))
    try:
        assert [plugin.name for plugin in plugins(Kind.SOURCE)].count("numbers") == 1
    finally:
        sys.path.remove(str(site))
