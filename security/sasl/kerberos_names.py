"""From a Kerberos principal to a user: `sasl.kerberos.principal.to.local.rules` (auth_to_local). Sans-IO.

`RULE:[n:string](regexp)s/pattern/replacement/g/L`; the first rule that applies counts. Source: Kafka's KerberosRule,
KerberosShortNamer.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kvorum.security.errors import AuthenticationError, SecurityConfigError
from kvorum.security.java_patterns import Pattern, Replacement, compile_pattern, parse_replacement, replace_matches

KEY: Final = "sasl.kerberos.principal.to.local.rules"
NAME: Final = re.compile(r"(?P<service>[^/@]*)(?:/(?P<host>[^/@]*))?@(?P<realm>[^/@]*)")
RULE: Final = re.compile(
    r"(?:(?P<default>DEFAULT)|RULE:\[(?P<count>[0-9]+):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<replacement>[^/]*)/(?P<all>g)?)?)/?(?P<case>[LU])?"
)
PARAMETER: Final = re.compile(r"\$([0-9]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule; without a number of parts it is DEFAULT."""

    text: str
    parts: int | None = None
    format: str = ""
    match: Pattern | None = None
    pattern: Pattern | None = None
    replacement: Replacement = ()
    is_for_all: bool = False
    case: str = ""

    def apply(self, parts: Sequence[str], default_realm: str) -> str | None:
        """Return the user of (realm, service[, host]), None if the rule does not apply. Raises AuthenticationError."""
        found: str | None = None
        if self.parts is None:
            found = parts[1] if parts[0] == default_realm else None
        elif len(parts) - 1 == self.parts:
            found = self._apply_format(parts)
        if found is None:
            return None
        if "/" in found or "@" in found:
            raise AuthenticationError(f"rule {self.text} of {KEY} returns {found}, which has / or @")
        return found.lower() if self.case == "L" else found.upper() if self.case == "U" else found

    def _apply_format(self, parts: Sequence[str]) -> str | None:
        base = PARAMETER.sub(lambda parameter: parts[int(parameter[1])], self.format)
        if self.match is not None and self.match.fullmatch(base) is None:
            return None
        if self.pattern is None:
            return base
        return replace_matches(self.pattern, self.replacement, base, None if self.is_for_all else 1)


class KerberosNames:
    """All rules of a listener."""

    __slots__ = ("_default_realm", "_rules")

    def __init__(self, rules: Sequence[str], default_realm: str) -> None:
        """Parse the rules. Raises SecurityConfigError."""
        self._rules = [_parse(text.strip()) for text in rules]
        self._default_realm = default_realm

    def user(self, principal: str) -> str:
        """Return the user of a Kerberos principal. Raises AuthenticationError."""
        match = NAME.fullmatch(principal)
        if match is None:
            if "@" in principal:
                raise AuthenticationError(f"malformed Kerberos name {principal!r}")
            return principal
        host = () if match["host"] is None else (match["host"],)
        for rule in self._rules:
            found = rule.apply((match["realm"], match["service"], *host), self._default_realm)
            if found:
                return found
        raise AuthenticationError(f"no rule of {KEY} applies to {principal}")


def _parse(text: str) -> Rule:
    """Parse one rule. Raises SecurityConfigError."""
    match = RULE.fullmatch(text)
    if match is None:
        form = "DEFAULT or RULE:[n:string](regexp)s/pattern/replacement/g/L"
        raise SecurityConfigError(KEY, f"`{text}` is not of the form {form}")
    if match["default"] is not None:
        return Rule(text=text, case=match["case"] or "")
    count = int(match["count"])
    numbers = PARAMETER.findall(match["format"])
    if not all(number and int(number) <= count for number in numbers):
        raise SecurityConfigError(KEY, f"`{text}`: the string may have $0 to ${count}")
    try:
        pattern = None if match["pattern"] is None else compile_pattern(match["pattern"])
        return Rule(
            text=text,
            parts=count,
            format=match["format"],
            match=None if match["match"] is None else compile_pattern(match["match"]),
            pattern=pattern,
            replacement=() if pattern is None else parse_replacement(match["replacement"], pattern),
            is_for_all=match["all"] is not None,
            case=match["case"] or "",
        )
    except ValueError as error:
        raise SecurityConfigError(KEY, f"`{text}`: {error}") from error
