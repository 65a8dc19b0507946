"""InsertHeader's literal: Connect parses it as a value of some type and writes that value again.

So `007` becomes 7, `1.50` 1.5, `[1, 2]` [1,2], and `null` no value at all; other text stays as it is.
"""

import json
import re
from decimal import Decimal
from typing import Final

NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$")
FLOAT_MAX: Final = Decimal("3.4028235E38")
DOUBLE_MAX: Final = Decimal("1.7976931348623157E308")


def header_text(literal: str) -> str | None:
    """Return what a header holds for a literal; None: no value."""
    text = literal.strip()
    if text == "null":
        return None
    if NUMBER.match(text):
        return number_text(Decimal(text))
    return compact(text) if text[:1] in ("[", "{") else text


def number_text(number: Decimal) -> str:
    """Return a number as Java writes the narrowest type that holds it: integers, then float, double, BigDecimal."""
    if number == number.to_integral_value() and abs(number) < FLOAT_MAX:
        return f"{number:f}".partition(".")[0].removeprefix("+")
    if abs(number) <= DOUBLE_MAX:
        text = repr(float(number)).upper().replace("E+", "E")
        mantissa, e, exponent = text.partition("E")
        return f"{mantissa}{'' if '.' in mantissa or not e else '.0'}{e}{exponent}"
    return str(number.normalize())


def compact(text: str) -> str:
    """Return JSON without spaces; what is none stays."""
    try:
        return json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)
    except json.JSONDecodeError:
        return text
