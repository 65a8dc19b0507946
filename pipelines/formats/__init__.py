"""How keys and values are written in bytes: decoding, encoding, and what becomes of what is neither.

read = formats.converter("json", {"schema": "id BIGINT, name STRING"})
frame = read.decode(frame, "value")                             # a record frame, see kvorum.pipelines.frames
"""

from kvorum.pipelines.formats.base import FormatError
from kvorum.pipelines.formats.build import converter, models

__all__ = ["FormatError", "converter", "models"]
