"""Curves as SVG: panels, four per row, a logarithmic x axis, y from 0, a line for each system, a dot for each point."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 460, 300
COLUMNS = 4
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 46, 46
PLOT_WIDTH, PLOT_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
LEVELS = 4
DOT = 3
BINARY = (1, 2, 4, 8, 10, 16, 32, 64, 100, 128, 256, 512)
"""Multiples of Ki or Mi are written in this way."""
STYLE = """
text{font:12px system-ui,sans-serif;fill:#445}.title{font-weight:600;font-size:14px}.level{stroke:#dde;stroke-width:1}
.line{fill:none;stroke-width:2}.kvorum{stroke:#1f6fb2;fill:#1f6fb2}.kafka{stroke:#c8641b;fill:#c8641b}
.line.kvorum,.line.kafka{fill:none}text.kvorum,text.kafka{stroke:none}
@media (prefers-color-scheme:dark){text{fill:#bbc}.level{stroke:#334}}
"""
Points = Sequence[tuple[float, float]]
"""(x, y), x rising."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One plot."""

    title: str
    x: str
    """The unit of the x axis."""
    y: str
    """The y axis's unit."""
    lines: Mapping[str, Points]
    """{system: its points}."""


def drawing(title: str, panels: Sequence[Panel]) -> str:
    """Return a whole SVG document."""
    width, height = WIDTH * min(len(panels), COLUMNS), HEIGHT * -(-len(panels) // COLUMNS) + 28
    inner = "".join(
        f'<g transform="translate({WIDTH * column},{HEIGHT * row + 28})">{panel_of(panel)}</g>'
        for (row, column), panel in ((divmod(place, COLUMNS), panel) for place, panel in enumerate(panels))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">'
        f"<style>{STYLE}</style>{text(title, LEFT, 20, 'title')}{inner}</svg>\n"
    )


def panel_of(panel: Panel) -> str:
    """Return a panel's elements."""
    values = [value for points in panel.lines.values() for _, value in points]
    places = sorted({place for points in panel.lines.values() for place, _ in points})
    if not values:
        return text(f"{panel.title}: nothing was found", LEFT, TOP)
    top = ceiling(max(values))
    parts = [text(f"{panel.title}, {panel.y}", LEFT, TOP - 24)]
    parts += [level(top * number / LEVELS, top) for number in range(LEVELS + 1)]
    parts += [
        text(short(place), across(place, places), TOP + PLOT_HEIGHT + 18, anchor="middle") for place in spaced(places)
    ]
    parts.append(text(panel.x, LEFT + PLOT_WIDTH / 2, HEIGHT - 8, anchor="middle"))
    for number, (name, points) in enumerate(panel.lines.items()):
        drawn = [(across(place, places), down(value, top)) for place, value in points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in drawn)
        parts.append(f'<path class="line {escape(name)}" d="M{path}"/>' if drawn else "")
        for (x, y), (place, value) in zip(drawn, points, strict=True):
            title = f"{name}, {short(place)}: {value:,.4g} {panel.y}"
            dot = f'<circle class="{escape(name)}" cx="{x:.1f}" cy="{y:.1f}" r="{DOT}">'
            parts.append(f"{dot}<title>{escape(title)}</title></circle>")
        parts.append(text(name, LEFT + 90 * number, TOP - 8, name))
    return "".join(parts)


def text(words: str, x: float, y: float, class_: str = "", anchor: str = "start") -> str:
    """Return words at a place."""
    return f'<text class="{escape(class_)}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def level(value: float, top: float) -> str:
    """Return a horizontal line with its value."""
    y = down(value, top)
    line = f'<path class="level" d="M{LEFT} {y:.1f}H{LEFT + PLOT_WIDTH}"/>'
    return line + text(short(value), LEFT - 6, y + 4, anchor="end")


def across(place: float, places: Sequence[float]) -> float:
    """Return the x of a place, by its logarithm."""
    first, last = (math.log(max(each, 1e-9)) for each in (places[0], places[-1]))
    share = (math.log(max(place, 1e-9)) - first) / (last - first) if last > first else 0.5
    return LEFT + PLOT_WIDTH * share


def down(value: float, top: float) -> float:
    """Return the y of a value."""
    return TOP + PLOT_HEIGHT * (1 - value / top)


def spaced(places: Sequence[float]) -> list[float]:
    """Return the places that have room for their number."""
    found: list[float] = []
    for place in places:
        if not found or across(place, places) - across(found[-1], places) > 9 * len(short(place)):
            found.append(place)
    return found


def ceiling(value: float) -> float:
    """Return the smallest of 1, 2, 4, 5, 8, 10 times a power of ten that is not below."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 5, 8, 10) if step * power >= value * 0.999999)


def short(value: float) -> str:
    """Return a number as few letters: 1k for 1,000, 2.5M for 2,500,000, 16Ki for 16,384."""
    for size, name in ((1 << 20, "Mi"), (1 << 10, "Ki")):
        if value / size in BINARY:
            return f"{value / size:.0f}{name}"
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.4g}{name}"
    return f"{value:.3g}"
