"""References in configurations, such as `${file:/etc/kvorum/secrets.properties:password}` (KIP-297).

    ${NAME:PATH:KEY}   a key of a properties file, a file of a directory
    ${NAME:KEY}        an environment variable

NAME is one of `config.providers`; `config.providers.NAME.class` is its class and `config.providers.NAME.param.` begins
its parameters. Text that names no provider stays as it is, and a value is not searched for further references. Unlike
in Kafka, a reference that refers to nothing is an error: it would be taken for the secret itself. Source: Kafka's
ConfigTransformer, FileConfigProvider, DirectoryConfigProvider, EnvVarConfigProvider, AllowedPaths.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final, TypeAlias

from kvorum.runtime.properties import PropertiesError, parse_properties

NAMES: Final = "config.providers"
PREFIX: Final = f"{NAMES}."
REFERENCE: Final = re.compile(r"\$\{([^}:]*):(?:([^}]*?):)?([^}]*?)\}")
FILE_BYTES_MAX: Final = 1 << 20
"""A secret, a certificate chain or a properties file is smaller."""
ALLOWED_PATHS: Final = "allowed.paths"
ALLOWLIST: Final = "allowlist.pattern"


class ProviderError(Exception):
    """A provider that cannot work, or a reference to nothing: the key (empty: that of the reference) and the reason."""

    def __init__(self, key: str, reason: str) -> None:
        """Store both."""
        super().__init__(f"{key}: {reason}" if key else reason)
        self.key = key
        self.reason = reason


Provider: TypeAlias = Callable[[str | None, str], str]
"""Returns the value at a path and key of a reference. Raises ProviderError."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Directories and files that references may name; empty: all."""

    allowed: tuple[str, ...] = ()

    @classmethod
    def of(cls, key: str, text: str) -> "Paths":
        """Read `allowed.paths`. Raises ProviderError."""
        paths = tuple(filter(None, (part.strip() for part in text.split(","))))
        for path in paths:
            if not os.path.isabs(path) or not os.path.exists(path):
                raise ProviderError(key, f"{path} is not an absolute path of a directory or file that exists")
        return cls(tuple(map(os.path.normpath, paths)))

    def read(self, path: str) -> str:
        """Return the text of a file. Raises ProviderError."""
        whole = os.path.normpath(path)
        if self.allowed and not any(whole == each or whole.startswith(each.rstrip("/") + "/") for each in self.allowed):
            raise ProviderError("", f"{path} is not below one of {ALLOWED_PATHS}: {', '.join(self.allowed)}")
        return read_text(whole)


def read_text(path: str) -> str:
    """Return the text of a file. Raises ProviderError."""
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise ProviderError("", f"{path} is larger than {FILE_BYTES_MAX} bytes")
        return data.decode()
    except OSError as error:
        raise ProviderError("", f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ProviderError("", f"{path} is not a text file (UTF-8)") from None
    except ValueError:
        raise ProviderError("", "the path contains a NUL character") from None


def file_value(paths: Paths, path: str | None, key: str) -> str:
    """Return the value of a key in a properties file. Raises ProviderError."""
    if not path:
        raise ProviderError("", "a reference to a key of a properties file has the form ${NAME:PATH:KEY}")
    try:
        found = {each.key: each.text for each in parse_properties(paths.read(path))}
    except PropertiesError as error:
        raise ProviderError("", f"{path}: {error}") from None
    if key not in found:
        raise ProviderError("", f"{path} has no key {key}")
    return found[key]


def directory_value(paths: Paths, path: str | None, key: str) -> str:
    """Return the text of a file in a directory, without the line break at its end. Raises ProviderError."""
    if not path:
        raise ProviderError("", "a reference to a file of a directory has the form ${NAME:PATH:FILE}")
    if key != os.path.basename(key) or key in ("", ".", ".."):
        raise ProviderError("", f"{key} is not the name of a file in {path}")
    return paths.read(os.path.join(path, key)).removesuffix("\n")


def environment_value(
    environment: Mapping[str, str], allowlist: "re.Pattern[str] | None", path: str | None, key: str
) -> str:
    """Return the value of an environment variable. Raises ProviderError."""
    if path:
        raise ProviderError("", "a reference to an environment variable has the form ${NAME:VARIABLE}")
    if allowlist is not None and allowlist.fullmatch(key) is None:
        raise ProviderError("", f"environment variable {key} does not match {ALLOWLIST}")
    if key not in environment:
        raise ProviderError("", f"environment variable {key} is not set")
    return environment[key]


PACKAGE: Final = "org.apache.kafka.common.config.provider."
FILE, DIRECTORY, ENVIRONMENT = (f"{PACKAGE}{name}ConfigProvider" for name in ("File", "Directory", "EnvVar"))
PARAMETERS: Final[Mapping[str, str]] = MappingProxyType(
    {FILE: ALLOWED_PATHS, DIRECTORY: ALLOWED_PATHS, ENVIRONMENT: ALLOWLIST}
)
"""The parameter of each class."""


def provider_of(class_name: str, key: str, parameter: str | None, environment: Mapping[str, str]) -> Provider:
    """Return a provider; `key` is that of its parameter. Raises ProviderError."""
    if class_name == ENVIRONMENT:
        try:
            allowlist = re.compile(parameter) if parameter else None
        except re.error as error:
            raise ProviderError(key, f"is not a regular expression: {error}") from None
        return partial(environment_value, environment, allowlist)
    paths = Paths() if parameter is None else Paths.of(key, parameter)
    return partial(file_value if class_name == FILE else directory_value, paths)


def configured_providers(texts: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Provider]:
    """Return the providers of a configuration, by name. Raises ProviderError."""
    found: dict[str, Provider] = {}
    for name in filter(None, (part.strip() for part in texts.get(NAMES, "").split(","))):
        key = f"{PREFIX}{name}.class"
        class_name = texts.get(key, "").strip()
        if class_name not in PARAMETERS:
            known = ", ".join(PARAMETERS)
            raise ProviderError(key, f"{class_name or 'no class'} cannot be loaded; use one of {known}")
        parameter = f"{PREFIX}{name}.param.{PARAMETERS[class_name]}"
        found[name] = provider_of(class_name, parameter, texts.get(parameter), environment)
    return found


def replace_references(text: str, providers: Mapping[str, Provider]) -> str:
    """Return a text with the values that it refers to. Raises ProviderError."""

    def value(match: "re.Match[str]") -> str:
        name, path, key = match.groups()
        return providers[name](path, key) if name in providers else match[0]

    return REFERENCE.sub(value, text) if "${" in text else text
