"""Files of a folder, each read once: those there are, then those that come (Spark's file stream source).

A file must appear whole: written elsewhere and renamed into the folder. `text` gives a line a record, as a string; the
other formats give a record with the file's columns. `timestamp` names the column that says when a record happened;
with `watermark`, how late one may be for what is aggregated by time.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kvorum.pipelines.formats import ddl
from kvorum.pipelines.frames import record_frame
from kvorum.pipelines.plugins import Context
from kvorum.pipelines.sources.options import Options, as_text


class FilesOptions(Options):
    """`source: {type: files, ...}`."""

    model_config = ConfigDict(populate_by_name=True, protected_namespaces=())

    path: str
    """A folder, or a pattern such as /data/*/in."""
    file_format: Literal["text", "json", "csv", "parquet"] = Field(default="text", alias="format")
    columns: Annotated[str, AfterValidator(ddl.checked_columns)] | None = Field(default=None, alias="schema")
    """As SQL's columns: "id BIGINT, name STRING". Without it, what the files there are have in common now."""
    timestamp: str | None = None
    watermark: str | None = None
    """Such as "10 minutes"; of the column `timestamp`."""
    topic: str | None = None
    """The topic of the records, where the sink does not name one."""
    maxFilesPerTrigger: int | None = None
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Spark's own options of the format: header, multiLine, recursiveFileLookup..."""


class FilesSource:
    """Source of files."""

    Options: ClassVar[type[BaseModel]] = FilesOptions

    def read(self, spark: SparkSession, options: Any, context: Context) -> DataFrame:
        """Return the lines or rows; key is null."""
        given = {key: as_text(value) for key, value in options.options.items()}
        reader = spark.readStream.format(options.file_format).options(**given)
        if options.maxFilesPerTrigger is not None:
            reader = reader.option("maxFilesPerTrigger", options.maxFilesPerTrigger)
        if options.file_format != "text":
            columns = options.columns or self._columns(spark, options, given)
            reader = reader.schema(columns)
        rows = reader.load(options.path)
        value = F.col("value") if options.file_format == "text" else F.struct("*")
        named: dict[str, Column] = {"value": value}
        if options.topic is not None:
            named["topic"] = F.lit(options.topic)
        if options.timestamp is not None:
            named["timestamp"] = F.col(options.timestamp)
        chosen = rows.select(*(column.alias(name) for name, column in named.items()))
        if options.watermark is not None:
            chosen = chosen.withWatermark("timestamp", options.watermark)
        return record_frame(chosen)

    @staticmethod
    def _columns(spark: SparkSession, options: Any, given: Mapping[str, str]) -> Any:
        """Look at the files there are. A stream keeps these columns: a later file's other ones are not read."""
        return spark.read.format(options.file_format).options(**given).load(options.path).schema
