"""Drawing on a shared time axis: positions are percent of the plot's width, so a plot fits a screen of any width.

Curves are drawn in a nested svg of CURVE_WIDTH units that is stretched; rectangles and letters take percent directly,
and letters keep their shape.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from kvorum.chaos.report.markup import Child, Markup, tag

CURVE_WIDTH: Final = 1000
TICKS_MAX: Final = 12
LETTER_WIDTH: Final = 0.62
"""Percent of the plot's width that one letter of a segment's label takes, on a plot of about 1000 pixels."""


class Axis:
    """The run's time, from its first event to its last."""

    def __init__(self, begin: float, duration: float) -> None:
        """Take seconds."""
        self.begin = begin
        self.duration = max(duration, 0.001)

    def at(self, t: float) -> float:
        """Return the place of a time, in percent, within the axis."""
        return min(100.0, max(0.0, (t - self.begin) / self.duration * 100))

    def width(self, begin: float, end: float, least: float = 0.0) -> float:
        """Return the width of a span in percent, at least `least` and never over the axis's end."""
        left = self.at(begin)
        return min(max(self.at(end) - left, least), max(100.0 - left, least))

    def ticks(self) -> list[float]:
        """Return round times, at most TICKS_MAX."""
        step = nice(self.duration / TICKS_MAX)
        first = math.ceil(self.begin / step)
        last = math.floor((self.begin + self.duration) / step)
        return [place * step for place in range(first, last + 1)]


def nice(value: float) -> float:
    """Return the smallest of 1, 2, 5, 10, ... (of seconds under a minute, then of minutes) that is at least this."""
    for unit in (60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0):
        if 30 < value <= unit:
            return unit
    scale = 10.0 ** math.floor(math.log10(max(value, 1e-6)))
    return next(step * scale for step in (1, 2, 5, 10) if step * scale >= value * 0.999999)


def percent(value: float) -> str:
    """Return a place or width as an attribute."""
    return f"{value:.2f}%"


def row(label: Child, plot: Child, *, class_: str = "", hint: str | None = None) -> Markup:
    """Return a line of the timeline: its label and its plot."""
    return tag(
        "div",
        tag("div", label, class_="label", title=hint),
        tag("div", plot, class_="plot"),
        class_=f"row {class_}".rstrip(),
    )


def svg(height: int, *children: Child, class_: str | None = None) -> Markup:
    """Return a plot of this height in pixels."""
    return tag("svg", *children, width="100%", height=height, class_=class_, role="img", focusable="false")


def rect(
    axis: Axis,
    begin: float,
    end: float,
    y: int,
    height: int,
    *,
    fill: str | None = None,
    tip: str | None = None,
    class_: str | None = None,
    least: float = 0.15,
    kind: str | None = None,
) -> Markup:
    """Return a bar from `begin` to `end`. `tip` is shown when the mouse is over it."""
    return tag(
        "rect",
        x=percent(axis.at(begin)),
        y=y,
        width=percent(axis.width(begin, end, least)),
        height=height,
        fill=fill,
        class_=class_,
        data_tip=tip,
        data_kind=kind,
    )


def segment(
    axis: Axis,
    begin: float,
    end: float,
    y: int,
    height: int,
    text: str,
    *,
    fill: str,
    tip: str,
    kind: str | None = None,
) -> Markup:
    """Return a bar with its name in it, where there is room for the name."""
    bar = rect(axis, begin, end, y, height, fill=fill, tip=tip, kind=kind)
    width = axis.width(begin, end)
    if width < LETTER_WIDTH * (len(text) + 1):
        return bar
    # In a box of the bar's size, which clips the text on a narrow screen.
    letters = tag("text", text, x="50%", y=height // 2 + 4, text_anchor="middle", class_="in")
    box = tag("svg", letters, x=percent(axis.at(begin)), y=y, width=percent(width), height=height)
    return Markup(bar + box)


def steps(values: Sequence[float | None], height: int, top: float, *, floor: float = 0.0) -> str:
    """Return the path of a step curve; `top` is the value at the upper edge. It has gaps without values."""
    path: list[str] = []
    drawing = False
    for place, value in enumerate(values):
        if value is None:
            drawing = False
            continue
        x, after = place * CURVE_WIDTH / len(values), (place + 1) * CURVE_WIDTH / len(values)
        y = height * (1 - (value - floor) / (top - floor))
        path.append(f"{'L' if drawing else 'M'}{x:.1f} {y:.1f}H{after:.1f}")
        drawing = True
    return "".join(path)


def curve(height: int, *paths: Child) -> Markup:
    """Return paths in CURVE_WIDTH x height units, stretched over the plot."""
    return tag(
        "svg", *paths, width="100%", height=height, viewBox=f"0 0 {CURVE_WIDTH} {height}", preserveAspectRatio="none"
    )


def levels(places: Iterable[tuple[float, str]]) -> Markup:
    """Return horizontal lines with their values: (pixels from the top, text)."""
    return Markup(
        "".join(
            tag("line", x1="0", x2="100%", y1=f"{y:.1f}", y2=f"{y:.1f}", class_="level")
            + tag("text", text, x="99.7%", y=f"{y + 10:.1f}", text_anchor="end", class_="value")
            for y, text in places
        )
    )
