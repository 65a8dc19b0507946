"""A topic's profile as one HTML page: no script, no file beside it; the plots are SVG in the page."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

from kvorum.pipelines.jobs.profile import QUANTILES, Profile, Sizes

WIDTH: Final = 760
HEIGHT: Final = 150
LEFT: Final = 70
BOTTOM: Final = 34
LABELS: Final = 8
"""Labels below a plot, at most."""

STYLE: Final = """
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:860px;padding:0 1rem;color:#1d2733;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse;margin:.5rem 0}
td,th{padding:.2rem .8rem .2rem 0;text-align:left;border-bottom:1px solid #e3e7ec;font-variant-numeric:tabular-nums}
td.n{text-align:right}svg{width:100%;height:auto}svg text{font-size:11px;fill:#5a6675}svg .bar{fill:#2f6fb0}
svg .axis{stroke:#c4ccd6}code{background:#f1f4f7;padding:0 .25em;word-break:break-all}
@media(prefers-color-scheme:dark){body{background:#14181d;color:#dfe6ee}td,th{border-color:#2b333c}
svg .bar{fill:#6aa7e8}svg text{fill:#9aa7b5}code{background:#222a32}}
"""


def page(found: Profile) -> str:
    """Return the page."""
    per_second = found.records / max(1.0, (found.time_max - found.time_min) / 1000)
    facts = {
        "records": number(found.records),
        "partitions": number(len(found.partitions)),
        "distinct keys (about)": number(found.keys),
        "records without a key": share(found.null_keys, found.records),
        "tombstones and other null values": share(found.null_values, found.records),
        "records with headers": share(found.with_headers, found.records),
        "first timestamp": moment(found.time_min),
        "last timestamp": moment(found.time_max),
        "records a second, over that time": f"{per_second:.2f}",
    }
    rates = [(moment(at, found.bucket_ms), count) for at, count, _ in found.rates]
    volumes = [(moment(at, found.bucket_ms), size) for at, _, size in found.rates]
    parts = [
        f"<h1>Topic <code>{escape(found.topic)}</code></h1>",
        table([], [(escape(name), value) for name, value in facts.items()]),
        f"<h2>Records by {span(found.bucket_ms)}</h2>",
        bars(rates, "records"),
        f"<h2>Bytes of keys and values by {span(found.bucket_ms)}</h2>",
        bars(volumes, "bytes"),
        "<h2>Sizes of values</h2>",
        sizes(found.value_sizes),
        "<h2>Sizes of keys</h2>",
        sizes(found.key_sizes),
        "<h2>What values look like</h2>",
        table(["looks like", "records"], [(escape(name), number(n)) for name, n in found.formats.items()]),
        "<h2>Most frequent keys</h2>",
        table(
            ["key", "records", "share"],
            [(f"<code>{escape(cut(key))}</code>", number(n), share(n, found.records)) for key, n in found.top_keys],
        ),
        "<h2>Headers</h2>",
        table(["name", "records"], [(f"<code>{escape(cut(name))}</code>", number(n)) for name, n in found.headers]),
        "<h2>Partitions</h2>",
        bars([(str(each.number), each.records) for each in found.partitions], "records"),
        table(
            ["partition", "records", "from offset", "up to", "offsets without a record", "bytes of values"],
            [
                tuple(map(number, (p.number, p.records, p.start, p.end, p.gaps, p.value_bytes)))
                for p in found.partitions
            ],
        ),
    ]
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(found.topic)}</title>'
    )
    return (
        f"<!doctype html><html lang=en><head>{head}<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def sizes(found: Sizes | None) -> str:
    """Return the sizes of keys or values."""
    if found is None:
        return "<p>There are none.</p>"
    quantiles = {f"{q:.0%} are at most": f"{number(n)} bytes" for q, n in zip(QUANTILES, found.quantiles, strict=True)}
    facts: Mapping[str, str] = {
        "all together": f"{number(found.total)} bytes",
        "mean": f"{found.mean:.1f} bytes",
        "smallest": f"{number(found.least)} bytes",
        **quantiles,
        "largest": f"{number(found.most)} bytes",
    }
    plot = bars([(f"< {number(size)}", count) for size, count in found.histogram.items()], "records")
    return table([], list(facts.items())) + plot


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells are HTML already, the first column is left-aligned."""
    lines = [f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr>"] if head else []
    for first, *others in rows:
        cells = "".join(f'<td class="n">{cell}</td>' for cell in others)
        lines.append(f"<tr><td>{first}</td>{cells}</tr>")
    if len(lines) == (1 if head else 0):
        return "<p>There are none.</p>"
    return f"<table>{''.join(lines)}</table>"


def bars(values: Sequence[tuple[str, int]], unit: str) -> str:
    """Return a bar chart as SVG."""
    most = max((value for _, value in values), default=0)
    if not most:
        return "<p>There are none.</p>"
    step = (WIDTH - LEFT) / len(values)
    drawn, every = [], -(-len(values) // LABELS)
    for at, (label, value) in enumerate(values):
        x, height = LEFT + at * step, value / most * (HEIGHT - 10)
        title = f"<title>{escape(label)}: {number(value)} {unit}</title>"
        place = f'x="{x:.1f}" y="{HEIGHT - height:.1f}" width="{max(step * 0.86, 0.5):.1f}" height="{height:.1f}"'
        drawn.append(f'<rect class="bar" {place}>{title}</rect>')
        if at % every == 0:
            drawn.append(f'<text x="{x:.1f}" y="{HEIGHT + 16}">{escape(label)}</text>')
    axis = f'<path class="axis" d="M{LEFT} {HEIGHT}H{WIDTH}"/>'
    scale = f'<text x="{LEFT - 6}" y="16" text-anchor="end">{number(most)}</text>'
    name = f'<text x="{LEFT - 6}" y="{HEIGHT}" text-anchor="end">{escape(unit)}</text>'
    box = f'viewBox="0 0 {WIDTH} {HEIGHT + BOTTOM}" role="img"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}>{axis}{scale}{name}{"".join(drawn)}</svg>'


def number(value: int) -> str:
    """Return a number with its thousands apart."""
    return f"{value:,}".replace(",", "\u202f")


def share(part: int, whole: int) -> str:
    """Return a count and its share."""
    return f"{number(part)} ({part / max(1, whole):.1%})"


def cut(told: str) -> str:
    """Return a text that fits into a cell."""
    return told if len(told) <= 120 else f"{told[:119]}…"


def span(bucket_ms: int) -> str:
    """Return the name of a length of time."""
    names = {1_000: "second", 60_000: "minute", 3_600_000: "hour", 86_400_000: "day"}
    return names.get(bucket_ms, f"{bucket_ms // 86_400_000} days")


def moment(time_ms: int, bucket_ms: int = 1) -> str:
    """Return a time in UTC, as exact as a bucket of this length."""
    try:
        at = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"
    if bucket_ms >= 86_400_000:
        return f"{at:%Y-%m-%d}"
    return (
        f"{at:%m-%d %H:%M}" if bucket_ms >= 60_000 else f"{at:%H:%M:%S}" if bucket_ms > 1 else f"{at:%Y-%m-%d %H:%M:%S}"
    )
