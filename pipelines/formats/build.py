"""Formats by name, and what their options are."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from kvorum.pipelines import plugins
from kvorum.pipelines.formats.avro import AvroFormat, AvroOptions
from kvorum.pipelines.formats.base import Format, FormatConverter, FormatError, FormatOptions
from kvorum.pipelines.formats.json_text import JsonFormat, JsonOptions
from kvorum.pipelines.formats.plain import (
    WIDTHS,
    BytesFormat,
    CsvFormat,
    CsvOptions,
    NumberFormat,
    StringFormat,
    StringOptions,
)
from kvorum.pipelines.formats.protobuf import ProtobufFormat, ProtobufOptions

FORMATS: Final[Mapping[str, tuple[type[FormatOptions], Callable[[Any], Format]]]] = {
    "bytes": (FormatOptions, BytesFormat),
    "string": (StringOptions, StringFormat),
    "json": (JsonOptions, JsonFormat),
    "csv": (CsvOptions, CsvFormat),
    "avro": (AvroOptions, AvroFormat),
    "protobuf": (ProtobufOptions, ProtobufFormat),
    **{name: (FormatOptions, partial(NumberFormat, name)) for name in WIDTHS},
}


def models() -> dict[str, type[BaseModel]]:
    """Return the options' models by `format.NAME`, for Parts.wrong_settings."""
    return {f"format.{name}": model for name, (model, _) in FORMATS.items()}


def converter(name: str, options: Mapping[str, Any] | None = None) -> plugins.Converter:
    """Return a format's converter; one that is none of ours is looked for among the plugins.

    Raises FormatError for options that are not right, PluginError for an unknown name.
    """
    if name not in FORMATS:
        return plugins.converter(name)(options or {})
    model, make = FORMATS[name]
    try:
        return FormatConverter(make(model.model_validate(options or {})))
    except ValidationError as error:
        found = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise FormatError(f"format {name}: {found}") from error
