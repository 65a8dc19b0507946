"""Result of a decision: records, and the response after their commit. Sans-IO."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from kvorum.quorum.records import MetadataRecord

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Generic[T]):
    """A decision: `records` are one change, to be appended and seen whole or not at all; none: nothing changes."""

    records: list[MetadataRecord]
    response: T
