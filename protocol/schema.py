"""Descriptions of the protocol's structs: the content of the generated message modules, which the codec reads."""

from typing import ClassVar, Final, NamedTuple, Protocol, TypeAlias

from typing_extensions import Buffer

from kvorum.protocol.parts import Part

Versions: TypeAlias = tuple[int, int]
"""First and last version, both included."""

Records: TypeAlias = Buffer | tuple[Part, ...] | None
"""Record batches: a memoryview of the frame when decoded; bytes or parts (sent without joining) when encoded."""

OWN_TAG_MIN: Final = 10_000
"""Tagged fields from here on are not Kafka's: Kvorum's nodes send them to each other."""


class Field(NamedTuple):
    """One field of a struct. `kind` is a primitive's name, or "struct" with the class in `struct`."""

    name: str
    kind: str
    versions: Versions
    nullable: Versions | None = None
    tag: int | None = None
    array: bool = False
    struct: "type[Struct] | None" = None


class Struct(Protocol):
    """Base of every generated dataclass."""

    FIELDS: ClassVar[tuple[Field, ...]]


class Message(Struct, Protocol):
    """A request or a response: the body, without header."""

    API_KEY: ClassVar[int]
    VERSIONS: ClassVar[Versions]
    FLEXIBLE_FROM: ClassVar[int]


def camel_case(name: str) -> str:
    """Return a field's name as Kafka's JSON has it: producer_id is producerId."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
