"""Files of a folder, each read once: those there are, then those that come (Spark's file stream source).

A file must appear complete: written elsewhere and renamed into the folder. `text` gives one record per line, as a
string; the other formats give a record with the file's columns. `timestamp` names the column that says when a record
happened.

A line that is not of its format is a failed record. Lines of JSON and CSV are read by the formats of the same names;
CSV with a header, and files whose options only Spark's own readers have, are split by Spark.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StringType, StructField, StructType

from kvorum.pipelines import formats, frames
from kvorum.pipelines.faults import as_text, as_texts
from kvorum.pipelines.formats import csv_values, schemas
from kvorum.pipelines.formats.base import Coded
from kvorum.pipelines.plugins import Context
from kvorum.pipelines.sources.options import Options

CORRUPT: Final = csv_values.CORRUPT
OF_FILES: Final = {
    *("linesep", "recursivefilelookup", "pathglobfilter", "modifiedbefore", "modifiedafter", "latestfirst"),
    *("maxfileage", "cleansource", "sourcearchivedir", "filenameonly", "maxbytespertrigger"),
}
"""Spark's options that are about files, not about what is in them."""
WHOLE_FILES: Final = frozenset(("header", "multiline", "encoding", "charset", "comment"))
"""Options of CSV for which a line alone is not enough."""


class FilesOptions(Options):
    """`source: {type: files, ...}`."""

    model_config = ConfigDict(populate_by_name=True, protected_namespaces=())

    path: str
    """A folder, or a pattern such as /data/*/in."""
    file_format: Literal["text", "json", "csv", "parquet"] = Field(default="text", alias="format")
    columns: schemas.Columns | None = Field(default=None, alias="schema")
    """As SQL's columns: "id BIGINT, name STRING". Without it, what the files there are have in common now."""
    header: bool | None = None
    """Of CSV: whether the first line of each file is the names of its columns, which must be those of the schema."""
    timestamp: str | None = None
    topic: str | None = None
    """The topic of the records, where the sink does not name one."""
    maxFilesPerTrigger: int | None = None
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Spark's own options of the format: multiLine, recursiveFileLookup..."""

    @model_validator(mode="after")
    def _header_of_csv(self) -> "FilesOptions":
        if self.header is not None and self.file_format != "csv":
            raise ValueError(f"header is for format csv, not {self.file_format}")
        return self

    def spark_options(self) -> dict[str, str]:
        """Return Spark's options."""
        header = {} if self.header is None else {"header": as_text(self.header)}
        return {**as_texts(self.options), **header}


class FilesSource:
    """Source of files."""

    Options: ClassVar[type[BaseModel]] = FilesOptions

    def read(self, spark: SparkSession, options: Any, context: Context) -> DataFrame:
        """Return the lines or rows; key is null."""
        given = options.spark_options()
        names = {key.lower() for key in given}
        kind = options.file_format
        is_split_by_spark = bool(names - OF_FILES) if kind == "json" else bool(names & WHOLE_FILES)
        if kind == "text" or (kind in ("json", "csv") and not is_split_by_spark):
            frame = self._lines(spark, options, given)
        else:
            frame = self._rows(spark, options, given)
        if options.topic is not None:
            frame = frame.withColumn("topic", F.lit(options.topic))
        if options.timestamp is not None:
            frame = frame.withColumn("timestamp", F.col("value").getField(options.timestamp).cast("timestamp"))
        return frame

    def _lines(self, spark: SparkSession, options: Any, given: Mapping[str, str]) -> DataFrame:
        """Return lines, read by the format of a topic's values."""
        lines = _stream(spark, "text", options, given).load(options.path)
        if options.file_format != "text":
            lines = lines.where(F.trim(F.col("value")) != "")
        frame = frames.record_frame(lines.select(F.col("value").cast("binary").alias("value")))
        if options.file_format == "text":
            return formats.converter("string").decode(frame, "value")
        settings: dict[str, Any] = {"schema": options.columns or _columns(spark, options, given).toDDL()}
        if options.file_format == "csv":
            settings["options"] = given
        return formats.converter(options.file_format, settings).decode(frame, "value")

    def _rows(self, spark: SparkSession, options: Any, given: Mapping[str, str]) -> DataFrame:
        """Return rows that Spark's reader splits."""
        schema = schemas.parsed(options.columns)[0] if options.columns else _columns(spark, options, given)
        columns = schemas.fields_of(schema, options.file_format)
        if options.file_format == "parquet":
            rows = _stream(spark, "parquet", options, given).schema(columns).load(options.path)
            return frames.record_frame(rows.select(F.struct("*").alias("value")))
        is_csv = options.file_format == "csv"
        wanted = csv_values.texts(columns) if is_csv else StructType([*columns, StructField(CORRUPT, StringType())])
        # Without all its columns Spark does not see that a line has too few; without the names, that they are others.
        checks = {"columnPruning": "false", "enforceSchema": "false"}
        settings = {**given, **checks, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        rows = _stream(spark, options.file_format, options, settings).schema(wanted).load(options.path)
        line, value = F.col(CORRUPT), F.struct(*(F.col(f"`{name}`") for name in columns.names))
        coded = Coded(value, F.when(line.isNotNull(), "json: not of the schema, or not JSON"))
        if is_csv:
            line = F.coalesce(line, F.to_csv(value, {"sep": given.get("sep", ",")}))
            coded = csv_values.values(F.struct("*"), columns, given, F.lit(None).cast("string"))
        assert coded.error is not None
        nothing = (F.lit(None).cast("binary").alias("key"), F.lit(None).cast("string").alias("topic"))
        origin = F.struct(nothing[0], line.cast("binary").alias("value"), nothing[1])
        rows = rows.withColumn(frames.ORIGIN, origin).withColumn("value", coded.column)
        failure = frames.failure(rows, coded.error.isNotNull(), stage=frames.VALUE_CONVERTER, message=coded.error)
        return frames.record_frame(rows.withColumn(frames.FAILURE, failure))


def _stream(spark: SparkSession, file_format: str, options: FilesOptions, given: Mapping[str, str]) -> DataStreamReader:
    reader = spark.readStream.format(file_format).options(**given)
    if options.maxFilesPerTrigger is not None:
        reader = reader.option("maxFilesPerTrigger", options.maxFilesPerTrigger)
    return reader


def _columns(spark: SparkSession, options: FilesOptions, given: Mapping[str, str]) -> StructType:
    """Look at the files there are. A stream keeps these columns: a later file's other ones are not read."""
    return spark.read.format(options.file_format).options(**given).load(options.path).schema
