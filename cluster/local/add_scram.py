"""`--add-scram` of the format commands: credentials of a new cluster's first users. Source: Kafka's ScramParser.

    SCRAM-SHA-256=[name=ann,password=secret]
    SCRAM-SHA-512=[name=ann,iterations=8192,salt="BASE64",saltedpassword="BASE64"]
    @FILE     one of these per line: a password is not in the list of processes then

Added by Kvorum: the file, and that no error shows a part of a password.
"""

import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kvorum.quorum.image.scram import credential_record
from kvorum.quorum.records import UserScramCredential
from kvorum.security.credentials import ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism
from kvorum.security.scram_keys import SALT_BYTES, credential_from, salted_password

USERS_MAX: Final = 1_000
"""Limit of a command: the milliseconds of a derivation each. Further users are created once the cluster runs."""
INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}")


class ScramOptionError(ValueError):
    """An invalid option, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUser:
    """A user of one option."""

    mechanism: ScramMechanism
    name: str
    iterations: int
    salt: bytes | None = field(repr=False)
    """None: a random one."""
    password: str | None = field(repr=False)
    salted: bytes = field(repr=False)
    """The salted password, where no password is given."""

    def to_record(self, random_bytes: Callable[[int], bytes]) -> UserScramCredential:
        """Return the record of the credential. Takes milliseconds."""
        salt = random_bytes(SALT_BYTES) if self.salt is None else self.salt
        salted = self.salted
        if self.password is not None:
            salted = salted_password(self.mechanism, self.password.encode(), salt, self.iterations)
        return credential_record(
            self.name, self.mechanism, credential_from(self.mechanism, salted, salt, self.iterations)
        )


def parse_scram_options(options: Sequence[str], read: Callable[[str], str]) -> list[ScramUser]:
    """Return the users of all options; `read` returns a file's text. Raises ScramOptionError, OSError."""
    texts: list[str] = []
    for option in options:
        if not option.startswith("@"):
            texts.append(option)
            continue
        lines = (line.strip() for line in read(option[1:]).splitlines())
        texts += [line for line in lines if line and not line.startswith("#")]
    if len(texts) > USERS_MAX:
        raise ScramOptionError(f"--add-scram takes at most {USERS_MAX} credentials; create others later")
    return [parse_scram_option(text) for text in texts]


def parse_scram_option(text: str) -> ScramUser:
    """Read MECHANISM=[key=value,...]. Raises ScramOptionError with Kafka's words."""
    name, equals, config = text.strip().partition("=")
    if not equals:
        raise ScramOptionError(f"Failed to find equals sign in SCRAM argument '{name}'")
    mechanism = next((each for each in ScramMechanism if each.mechanism_name == name), None)
    if mechanism is None:
        raise ScramOptionError(f"The add-scram mechanism {name} is not supported.")
    if not config.startswith("["):
        raise ScramOptionError("Expected configuration string to start with [")
    if not config.endswith("]"):
        raise ScramOptionError("Expected configuration string to end with ]")
    return _user(mechanism, _components(config[1:-1]))


def _components(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    parts = text.split(",")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()  # as Java's split does
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals:
            hint = "[hidden]; a password with a comma is given as salt and saltedpassword" if part else ""
            raise ScramOptionError(f"No equals sign found in SCRAM component: {hint}")
        if len(value) >= 2 and value[0] == value[-1] == '"':
            value = value[1:-1]
        found[key] = value
    return found


def _user(mechanism: ScramMechanism, components: dict[str, str]) -> ScramUser:
    name = components.pop("name", None)
    if not name:
        raise ScramOptionError("You must supply 'name' to add-scram")
    salt = _decoded(components.pop("salt", None), "salt")
    iterations = _iterations(mechanism, components.pop("iterations", None))
    password, salted_text = components.pop("password", None), components.pop("saltedpassword", None)
    if not password and salted_text is None:
        raise ScramOptionError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    if password is None and salt is None:
        raise ScramOptionError("You must supply 'salt' with 'saltedpassword' to add-scram")
    salted = _decoded(salted_text, "saltedPassword") if password is None else None
    if components:
        raise ScramOptionError(f"Unknown SCRAM configurations: {', '.join(sorted(components))}")
    return ScramUser(
        mechanism=mechanism, name=name, iterations=iterations, salt=salt, password=password, salted=salted or b""
    )


def _iterations(mechanism: ScramMechanism, text: str | None) -> int:
    if text is None:
        return ITERATIONS_MIN
    if not INTEGER.fullmatch(text):
        raise ScramOptionError(f"Failed to parse iterations count: {text}")
    iterations, limit = int(text), None
    if iterations < ITERATIONS_MIN:
        limit = f">= {ITERATIONS_MIN}"
    elif iterations > ITERATIONS_MAX:
        limit = f"<= {ITERATIONS_MAX}"
    if limit is not None:
        raise ScramOptionError(f"The 'iterations' value must be {limit} for add-scram using {mechanism.name}")
    return iterations


def _decoded(text: str | None, name: str) -> bytes | None:
    """Return the bytes of a value in base64, with or without its padding."""
    if text is None:
        return None
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        shown = text if name == "salt" else "[hidden]"
        raise ScramOptionError(f"Failed to decode given {name}: {shown}") from None
