"""Formats of keys and values in bytes, by name: decoding, encoding, and failures of what cannot be converted.

read = formats.converter("json", {"schema": "id BIGINT, name STRING"})
frame = read.decode(frame, "value")                             # a record frame, see kvorum.pipelines.frames
"""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from kvorum.pipelines import plugins
from kvorum.pipelines.formats import plain
from kvorum.pipelines.formats.avro import AvroFormat
from kvorum.pipelines.formats.base import Format, FormatError
from kvorum.pipelines.formats.csv_values import CsvFormat
from kvorum.pipelines.formats.json_text import JsonFormat
from kvorum.pipelines.formats.protobuf import ProtobufFormat

__all__ = ["FormatError", "converter", "models"]

FORMATS: Final[Mapping[str, type[Format]]] = {
    "bytes": plain.BytesFormat,
    "string": plain.StringFormat,
    "json": JsonFormat,
    "csv": CsvFormat,
    "avro": AvroFormat,
    "protobuf": ProtobufFormat,
    "short": plain.ShortFormat,
    "integer": plain.IntegerFormat,
    "long": plain.LongFormat,
}


def models() -> dict[str, type[BaseModel]]:
    """Return the options' models by `format.NAME`, for Parts.wrong_settings."""
    return {f"format.{name}": model for name, model in FORMATS.items()}


def converter(name: str, options: Mapping[str, Any] | None = None) -> plugins.Converter:
    """Return a format's converter. Raises FormatError for an unknown name and for options that are not right."""
    if name not in FORMATS:
        raise FormatError(f"there is no format {name!r}; there are {', '.join(FORMATS)}")
    try:
        return FORMATS[name].model_validate(options or {})
    except ValidationError as error:
        found = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise FormatError(f"format {name}: {found}") from error
