"""Numbers as Java writes them (Double.toString, Float.toString): 1.0, 0.1, and 1.0E7 from ten millions on. Sans-IO."""

import math
from contextlib import suppress
from decimal import Decimal
from struct import pack, unpack

EXPONENT_BELOW = 1e-3
EXPONENT_FROM = 1e7
FLOAT_DIGITS_MAX = 9
"""Digits that are sufficient for every float."""


def java_double(value: float) -> str:
    """Return a number as Java's Double.toString writes it: 1048576.0, and from ten millions on 1.0E7."""
    return java_decimal(value, repr(float(value)))


def java_float(value: float) -> str:
    """Return a number of four bytes as Java's Float.toString writes it: by the fewest digits that name it."""
    if not math.isfinite(value):
        return java_decimal(value, "")
    for digits in range(1, FLOAT_DIGITS_MAX + 1):
        text = f"{value:.{digits}g}"
        with suppress(OverflowError):  # rounded up beyond the largest there is
            if unpack(">f", pack(">f", float(text)))[0] == value:
                break
    return java_decimal(value, repr(float(text)))


def java_decimal(value: float, text: str) -> str:
    """Return a number by its digits, with an exponent where Java has one."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(text).as_tuple()
    if value and not EXPONENT_BELOW <= abs(value) < EXPONENT_FROM:
        shown = "".join(map(str, digits))
        return f"{'-' * sign}{shown[0]}.{shown[1:].rstrip('0') or '0'}E{len(shown) - 1 + int(exponent)}"
    plain = f"{Decimal(text):f}"
    return plain if "." in plain else f"{plain}.0"
