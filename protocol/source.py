"""Source text of the readers and writers that codec.py compiles; runs of fixed-size fields become one struct call."""

import functools
import struct
from typing import TypeVar

from kvorum.protocol.schema import Field, Struct

S = TypeVar("S", bound=Struct)

FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
LENGTHS = {"string": "h", "bytes": "i", "records": "i"}
"""Length prefix before flexible versions."""


class _Writer:
    """Lines of source with their indentation."""

    def __init__(self, names: dict[str, object]) -> None:
        self.lines: list[str] = []
        self.indent = 1
        self.names = names

    def add(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def struct(self, format_: str, method: str) -> str:
        name = f"{method}_{format_.replace('?', 'B0')}"
        self.names[name] = getattr(struct.Struct(">" + format_), method)
        return name


def _present(cls: type[Struct], version: int) -> tuple[list[Field], list[Field]]:
    """Return the plain and the tagged fields of a version."""
    there = [field for field in cls.FIELDS if field.versions[0] <= version <= field.versions[1]]
    return [f for f in there if f.tag is None], sorted(
        (f for f in there if f.tag is not None), key=lambda f: f.tag or 0
    )


def _nullable(field: Field, version: int) -> bool:
    return field.nullable is not None and field.nullable[0] <= version <= field.nullable[1]


def decoder_source(cls: type[Struct], version: int, flexible: bool, names: dict[str, object]) -> str:
    """Return `def decode(b, p, e)`: the struct at p of b, which ends before e, and the position behind it."""
    w = _Writer(names)
    plain, tagged = _present(cls, version)
    index = 0
    while index < len(plain):
        run = []
        while index < len(plain) and not plain[index].array and plain[index].kind in FORMATS:
            run.append(plain[index])
            index += 1
        if run:
            _decode_run(w, run)
        elif index < len(plain):
            _decode_field(w, plain[index], version, flexible)
            index += 1
    _add_defaults(names, cls, tagged)
    names["UNSET"] = UNSET
    for field in tagged:
        w.add(f"v_{field.name} = {'UNSET' if field.array else f'D_{field.name}'}")
    if flexible:
        _decode_tags(w, tagged, version)
    arrays = [field for field in tagged if field.array]
    given = [*plain, *(field for field in tagged if not field.array)]
    w.add("o = cls(" + ", ".join(f"{f.name}=v_{f.name}" for f in given) + ")")
    for field in arrays:
        w.add(f"if v_{field.name} is not UNSET: o.{field.name} = v_{field.name}")
    w.add("return o, p")
    return "def decode(b, p, e):\n" + "\n".join(w.lines) + "\n"


UNSET = object()
"""An array that was not sent: each message has its own empty one."""


@functools.cache
def default_of(cls: type[S]) -> S:
    """Return the struct whose fields all have their defaults; never written to.

    A struct with shared parts is encoded fast.
    """
    return cls()


def _add_defaults(names: dict[str, object], cls: type[Struct], tagged: list[Field]) -> None:
    """Name the defaults of the tagged fields. A struct that was not sent is the same for all, and never written to."""
    for field in tagged:
        names[f"D_{field.name}"] = getattr(default_of(cls), field.name)


def _decode_run(w: _Writer, run: list[Field]) -> None:
    format_ = "".join(FORMATS[f.kind] for f in run)
    w.add(", ".join(f"v_{f.name}" for f in run) + f", = {w.struct(format_, 'unpack_from')}(b, p)")
    w.add(f"p += {struct.calcsize('>' + format_)}")
    for field in run:
        if field.kind == "uuid":
            w.add(f"v_{field.name} = Uuid(v_{field.name})")


def _decode_length(w: _Writer, format_: str, flexible: bool) -> None:
    """Leave in n the length, -1 for null."""
    if flexible:
        w.add("n = b[p]; p += 1")
        w.add("if n > 127: n, p = varint(b, p - 1)")
        w.add("n -= 1")
    else:
        w.add(f"n, = {w.struct(format_, 'unpack_from')}(b, p)")
        w.add(f"p += {struct.calcsize('>' + format_)}")


def _decode_field(w: _Writer, field: Field, version: int, flexible: bool) -> None:
    target = f"v_{field.name}"
    if field.array:
        _decode_array(w, field, version, flexible)
    elif field.kind == "struct":
        assert field.struct is not None
        read = f"{target}, p = d_{field.struct.__name__}(b, p, e)"
        if _nullable(field, version):
            w.add("p += 1")
            # Kafka's generator marks a null struct by the byte -1, but by the number 0 where the field is tagged.
            w.add(f"if b[p - 1] {'>= 128' if field.tag is None else '== 0'}: {target} = None")
            w.add(f"else: {read}")
        else:
            w.add(read)
    elif field.kind in FORMATS:
        _decode_run(w, [field])
    else:
        _decode_bytes(w, field, target, _nullable(field, version), flexible)


def _decode_bytes(w: _Writer, field: Field, target: str, nullable: bool, flexible: bool) -> None:
    _decode_length(w, LENGTHS[field.kind], flexible)
    # Kafka's records fields may be null whatever the version in the definition; a length below -1 never may.
    null = f"{target} = None" if nullable or field.kind == "records" else f"fail('{field.name} is null')"
    w.add(f"if n == -1: {null}")
    w.add("else:")
    w.add(f"    if n < 0 or n > e - p: fail('{field.name}: %d bytes, %d remain' % (n, e - p))")
    slice_ = "b[p:p + n]"
    values = {"string": f"str({slice_}, 'utf-8', 'replace')", "bytes": f"bytes({slice_})", "records": slice_}
    value = values[field.kind]
    w.add(f"    {target} = {value}; p += n")


def size_min(field: Field, version: int, flexible: bool) -> int:
    """Return the fewest bytes one value (one entry, for an array) of the field takes: a count is held against it."""
    if field.kind in FORMATS:
        return struct.calcsize(">" + FORMATS[field.kind])
    if field.struct is None:
        return 1 if flexible else struct.calcsize(">" + LENGTHS[field.kind])
    plain, _ = _present(field.struct, version)
    inner = sum((1 if flexible else 4) if f.array else size_min(f, version, flexible) for f in plain)
    return 1 if _nullable(field, version) and not field.array else max(1, inner + flexible)


def _decode_array(w: _Writer, field: Field, version: int, flexible: bool) -> None:
    target = f"v_{field.name}"
    _decode_length(w, "i", flexible)
    size = size_min(field, version, flexible)
    null = f"{target} = None" if _nullable(field, version) else f"fail('{field.name} is null')"
    w.add(f"if n == -1: {null}")
    w.add(f"elif n < 0 or n * {size} > e - p: fail('{field.name}: %d entries, %d bytes remain' % (n, e - p))")
    w.add("else:")
    w.indent += 1
    if field.kind == "struct":
        assert field.struct is not None
        w.add(f"{target} = []; append = {target}.append")
        w.add("for _ in range(n):")
        w.add(f"    x, p = d_{field.struct.__name__}(b, p, e)")
        w.add("    append(x)")
    elif field.kind == "uuid":
        w.add(f"{target} = [Uuid(b[q:q + 16]) for q in range(p, p + 16 * n, 16)]; p += 16 * n")
    elif field.kind in FORMATS:
        w.add(f"{target} = list(struct.unpack_from('>%d{FORMATS[field.kind]}' % n, b, p)); p += n * {size}")
    else:
        w.add(f"{target} = []")
        w.add("for _ in range(n):")
        w.indent += 1
        _decode_bytes(w, field, "x", False, flexible)
        w.add(f"{target}.append(x)")
        w.indent -= 1
    w.indent -= 1


def _decode_tags(w: _Writer, tagged: list[Field], version: int) -> None:
    """Read the tagged fields; unknown ones are stepped over."""
    w.add("t = b[p]; p += 1")
    w.add("if t > 127: t, p = varint(b, p - 1)")
    w.add("while t:")
    w.indent += 1
    w.add("t -= 1")
    w.add("tag = b[p]; p += 1")
    w.add("if tag > 127: tag, p = varint(b, p - 1)")
    w.add("size = b[p]; p += 1")
    w.add("if size > 127: size, p = varint(b, p - 1)")
    w.add("end = p + size")
    w.add("if end > e: fail('tag %d: %d bytes, %d remain' % (tag, size, e - p))")
    for number, field in enumerate(tagged):
        w.add(f"{'el' if number else ''}if tag == {field.tag}:")
        w.indent += 1
        _decode_field(w, field, version, True)
        w.indent -= 1
    w.add("p = end")
    w.indent -= 1


def encoder_source(cls: type[Struct], version: int, flexible: bool, names: dict[str, object]) -> str:
    """Return `def encode(o, w, s)`: append struct o to bytearray w; parts that are not copied go to list s."""
    w = _Writer(names)
    plain, tagged = _present(cls, version)
    index = 0
    while index < len(plain):
        run = []
        while index < len(plain) and not plain[index].array and plain[index].kind in FORMATS:
            run.append(plain[index])
            index += 1
        if run:
            format_ = "".join(FORMATS[f.kind] for f in run)
            w.add(f"w += {w.struct(format_, 'pack')}(" + ", ".join(f"o.{f.name}" for f in run) + ")")
        elif index < len(plain):
            _encode_field(w, plain[index], version, flexible)
            index += 1
    if flexible and not tagged:
        w.add("w.append(0)")
    elif flexible:
        _encode_tags(w, cls, tagged, version)
    if not w.lines:
        w.add("pass")
    return "def encode(o, w, s):\n" + "\n".join(w.lines) + "\n"


def _encode_length(w: _Writer, expression: str, format_: str, flexible: bool) -> None:
    if flexible:
        w.add(f"n = {expression} + 1")
        w.add("if n < 128: w.append(n)")
        w.add("else: write_varint(w, n)")
    else:
        w.add(f"w += {w.struct(format_, 'pack')}({expression})")


def _encode_null(w: _Writer, format_: str, flexible: bool) -> None:
    w.add("w.append(0)" if flexible else f"w += {w.struct(format_, 'pack')}(-1)")


def _encode_field(w: _Writer, field: Field, version: int, flexible: bool) -> None:
    value = f"o.{field.name}"
    nullable = _nullable(field, version) or field.kind == "records"
    if field.kind in FORMATS and not field.array:
        w.add(f"w += {w.struct(FORMATS[field.kind], 'pack')}({value})")
        return
    w.add(f"x = {value}")
    if nullable:
        w.add("if x is None:")
        w.indent += 1
        if field.kind == "struct" and not field.array:
            w.add("w.append(255)" if field.tag is None else "w.append(0)")
        else:
            _encode_null(w, "i" if field.array else LENGTHS[field.kind], flexible)
        w.indent -= 1
        w.add("else:")
        w.indent += 1
    else:
        w.add(f"assert x is not None, '{field.name} cannot be null in v{version}'")
    if field.array:
        _encode_length(w, "len(x)", "i", flexible)
        _encode_elements(w, field, flexible)
    elif field.kind == "struct":
        assert field.struct is not None
        if _nullable(field, version):
            w.add("w.append(1)")
        w.add(f"e_{field.struct.__name__}(x, w, s)")
    else:
        _encode_bytes(w, field.kind, flexible)
    if nullable:
        w.indent -= 1


def _encode_bytes(w: _Writer, kind: str, flexible: bool) -> None:
    """Append the value in x."""
    if kind == "string":
        w.add("x = x.encode()")
    if kind == "records":
        _encode_length(w, "records_size(x)", "i", flexible)
        w.add("write_records(w, s, x)")
    else:
        _encode_length(w, "len(x)", LENGTHS[kind], flexible)
        w.add("w += x")


def _encode_elements(w: _Writer, field: Field, flexible: bool) -> None:
    if field.kind == "struct":
        assert field.struct is not None
        w.add(f"for y in x: e_{field.struct.__name__}(y, w, s)")
    elif field.kind == "uuid":
        w.add("for y in x: w += y")
    elif field.kind in FORMATS:
        w.add(f"w += struct.pack('>%d{FORMATS[field.kind]}' % len(x), *x)")
    else:
        w.add("for x in x:")
        w.indent += 1
        _encode_bytes(w, field.kind, flexible)
        w.indent -= 1


def _encode_tags(w: _Writer, cls: type[Struct], tagged: list[Field], version: int) -> None:
    """Append the tagged fields that differ from their default, by rising tag."""
    _add_defaults(w.names, cls, tagged)
    w.add("t = 0; out = w")
    for field in tagged:
        # Usually it is the default object, or equal to it; comparing dataclasses is slow.
        w.add(f"x = o.{field.name}")
        w.add(f"if x is not D_{field.name} and x != D_{field.name}:")
        w.indent += 1
        w.add("if not t: tags = bytearray()")
        w.add("w = bytearray(); t += 1")
        _encode_field(w, field, version, True)
        w.add(f"write_varint(tags, {field.tag}); write_varint(tags, len(w)); tags += w")
        w.indent -= 1
    w.add("w = out")
    w.add("if t: write_varint(w, t); w += tags")
    w.add("else: w.append(0)")
