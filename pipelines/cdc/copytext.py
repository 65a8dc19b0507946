"""COPY's text format: lines in, rows out. Pure."""

from kvorum.pipelines.cdc.pgoutput import Row

_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def parse_line(line: bytes) -> Row:
    r"""Return the row of a line: tabs between columns, \N for null, a backslash before what is not plain."""
    fields = line.removesuffix(b"\n").split(b"\t")
    if b"\\" not in line:
        return tuple(fields)
    return tuple(None if field == rb"\N" else _unescaped(field) if b"\\" in field else field for field in fields)


def _unescaped(field: bytes) -> bytes:
    head, *rest = field.split(b"\\")
    parts, literal = [head], False
    for part in rest:
        if literal:  # behind an escaped backslash: nothing is escaped here
            parts.append(part)
            literal = False
        elif part:
            parts += [_ESCAPES.get(part[:1], part[:1]), part[1:]]
        else:
            parts.append(b"\\")
            literal = True
    return b"".join(parts)
