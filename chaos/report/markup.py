"""HTML as a value: text is escaped, `Markup` is HTML already. There is no third kind."""

import json
from collections.abc import Iterable, Mapping
from html import escape
from typing import Final, TypeAlias

VOID: Final = frozenset({"meta", "input", "br"})
"""Elements that have no end tag."""


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child: TypeAlias = "str | Iterable[Child] | None"
"""Text (escaped), Markup (unchanged), nothing, or several of these."""

Attribute: TypeAlias = str | int | float | bool | None
"""None and False leave an attribute out; True writes it without a value."""


def tag(element: str, *children: Child, **attributes: Attribute) -> Markup:
    """Return an element. `class_` is class, `data_tip` is data-tip."""
    written = "".join(_attribute(name, value) for name, value in attributes.items())
    if element in VOID:
        return Markup(f"<{element}{written}>")
    return Markup(f"<{element}{written}>{join(children)}</{element}>")


def join(children: Child) -> Markup:
    """Return children one after the other."""
    if children is None:
        return Markup("")
    if isinstance(children, Markup):
        return children
    if isinstance(children, str):
        return Markup(escape(children))
    return Markup("".join(map(join, children)))


def data(id: str, value: Mapping[str, object]) -> Markup:
    """Return a script element that holds data for the page's own script, and that no text in it can end."""
    text = json.dumps(value, separators=(",", ":")).replace("<", "\\u003c").replace("&", "\\u0026")
    return Markup(f'<script type="application/json" id="{escape(id)}">{text}</script>')


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    spelled = name.rstrip("_").replace("_", "-")
    return f" {spelled}" if value is True else f' {spelled}="{escape(str(value))}"'
