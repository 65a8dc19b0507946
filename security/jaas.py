"""The text of `sasl.jaas.config`: `Class flag key="value" ... ;`, exactly one login module.

Reads what Kafka's JaasConfig reads (Java's StreamTokenizer): words of letters, digits and `. - _ $`, quoted strings
with C escapes, comments from `/` to the end of a line and between `/*` and `*/`. Error messages are Kafka's. Values
never appear in them: a value with an unescaped quote ends early, and its rest would be taken for a key, so only
well-known keys are shown.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

JAAS_CHARS_MAX: Final = 1024 * 1024
"""Room for some ten thousand users of PLAIN."""
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
MODULES_OF_MECHANISMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "PLAIN": PLAIN_MODULE,
        "SCRAM-SHA-256": SCRAM_MODULE,
        "SCRAM-SHA-512": SCRAM_MODULE,
        "OAUTHBEARER": OAUTHBEARER_MODULE,
        "GSSAPI": KERBEROS_MODULE,
    }
)
DISALLOWED_MODULES: Final = (
    "com.sun.security.auth.module.JndiLoginModule",
    "com.sun.security.auth.module.LdapLoginModule",
)
"""They connect to an address of the text's choice."""
SHOWN_KEY: Final = re.compile(
    r"username|password|user_[\w.-]*|tokenauth|serviceName|keyTab|principal|useKeyTab|storeKey|useTicketCache"
    r"|clientId|clientSecret|scope|extension_\w+|unsecured\w+"
)
ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasError(Exception):
    """The text is invalid. The message contains no value of it."""


class ControlFlag(Enum):
    """Flag of a login module. Without effect, as in Kafka: there is one module."""

    REQUIRED = "required"
    REQUISITE = "requisite"
    SUFFICIENT = "sufficient"
    OPTIONAL = "optional"


@dataclass(frozen=True, slots=True)
class JaasModule:
    """A login module with its options."""

    name: str
    flag: ControlFlag
    options: Mapping[str, str] = field(repr=False)


class Token(NamedTuple):
    """A word or a quoted string; `text` is None for a number or another single character, `symbol`."""

    text: str | None
    symbol: str = ""
    quoted: bool = False


def parse_jaas(text: str) -> JaasModule:
    """Return the only login module of a text. Raises JaasError."""
    if len(text) > JAAS_CHARS_MAX:
        raise JaasError(f"JAAS config has {len(text)} characters, more than {JAAS_CHARS_MAX}")
    tokens = Tokenizer(text)
    modules: list[JaasModule] = []
    while (first := tokens.next()) is not None:
        modules.append(_parse_module(first, tokens, is_first=not modules))
    if not modules:
        raise JaasError("Login module not specified in JAAS config")
    if len(modules) != 1:
        raise JaasError(f"JAAS config property contains {len(modules)} login modules, should be 1 module")
    return modules[0]


def _parse_module(first: Token, tokens: "Tokenizer", *, is_first: bool) -> JaasModule:
    if first.text is None:
        raise JaasError("Login module not specified in JAAS config")
    if first.text in DISALLOWED_MODULES:
        raise JaasError(f"{first.text} is not allowed")
    flag = _parse_flag(tokens.next(), is_shown=is_first)
    options: dict[str, str] = {}
    while True:
        key = tokens.next()
        if key is None:
            raise JaasError("JAAS config entry not terminated by semi-colon")
        if key.symbol == ";":
            return JaasModule(first.text, flag, MappingProxyType(options))
        equals = tokens.next()
        value = tokens.next() if equals is not None and equals.symbol == "=" else None
        if value is None or value.text is None or key.text is None:
            raise JaasError(f"Value not specified for key {_shown(key, len(options) + 1)} in JAAS config")
        options[key.text] = value.text


def _parse_flag(token: Token | None, *, is_shown: bool) -> ControlFlag:
    """Read a flag; one behind another module may be part of a value, and is not shown. Raises JaasError."""
    if token is None:
        raise JaasError("Login module control flag not specified in JAAS config")
    if token.text is None:
        raise JaasError("Login module control flag is not available in the JAAS config")
    flag = ControlFlag.__members__.get(token.text.upper())
    if flag is None:
        shown = f" '{token.text}'" if is_shown and not token.quoted and token.text.isalpha() else ""
        raise JaasError(f"Invalid login module control flag{shown} in JAAS config")
    return flag


def _shown(key: Token, number: int) -> str:
    """Return a key for a message: its name if it is certainly no part of a value, else its number."""
    is_known = key.text is not None and not key.quoted and SHOWN_KEY.fullmatch(key.text) is not None
    return f"'{key.text}'" if is_known else f"number {number}"


class Tokenizer:
    """Java's StreamTokenizer as JaasConfig sets it up."""

    def __init__(self, text: str) -> None:
        """Start at the beginning."""
        self._text = text
        self._position = 0

    def next(self) -> Token | None:
        """Return the next token, None at the end."""
        self._skip_blanks()
        text, start = self._text, self._position
        if start >= len(text):
            return None
        char = text[start]
        if char in "\"'":
            return self._string(char)
        end = start
        if (char.isascii() and char.isdigit()) or char in ".-":
            # A number, or "." or "-" alone, is no word; neither can begin one.
            while end < len(text) and (text[end] in "0123456789." or (end == start and char == "-")):
                end += 1
            self._position = end
            return Token(None)
        while end < len(text) and _is_word(text[end]):
            end += 1
        if end > start:
            self._position = end
            return Token(text[start:end])
        self._position = start + 1
        return Token(None, char)

    def _skip_blanks(self) -> None:
        text = self._text
        while self._position < len(text):
            position = self._position
            if text.startswith("/*", position):
                end = text.find("*/", position + 2)
                self._position = len(text) if end < 0 else end + 2
            elif text[position] == "/":
                ends = [end for end in (text.find("\n", position), text.find("\r", position)) if end >= 0]
                self._position = min(ends, default=len(text))
            elif text[position] <= " ":
                self._position += 1
            else:
                return

    def _string(self, quote: str) -> Token:
        """Read a quoted string; the end of the line ends it as well."""
        text, position, found = self._text, self._position + 1, []
        while position < len(text) and text[position] not in (quote, "\n", "\r"):
            char = text[position]
            position += 1
            if char == "\\" and position < len(text):
                char = text[position]
                octal = re.compile(r"[0-3][0-7]{0,2}|[4-7][0-7]?").match(text, position)
                position += 1 if octal is None else len(octal[0])
                char = ESCAPES.get(char, char) if octal is None else chr(int(octal[0], 8))
            found.append(char)
        self._position = position + 1 if position < len(text) and text[position] == quote else position
        return Token("".join(found), quoted=True)


def _is_word(char: str) -> bool:
    return (char.isascii() and char.isalnum()) or char in ".-_$" or ord(char) >= 160
