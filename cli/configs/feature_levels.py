"""Releases and levels: features of each Kafka release, and names of the levels of metadata.version. Sans-IO.

Source: Kafka 4.3's MetadataVersion, and the defaultLevel of each Feature.
"""

import re
from collections.abc import Sequence

METADATA_VERSION = "metadata.version"
INT16_MAX = 2**15 - 1
SHORT = re.compile("[+-]?[0-9]{1,5}")
# Level of metadata.version by name, from the first that KRaft clusters of Kafka 4 can have.
METADATA_LEVELS = {
    "3.3-IV3": 7,
    "3.4-IV0": 8,
    "3.5-IV0": 9,
    "3.5-IV1": 10,
    "3.5-IV2": 11,
    "3.6-IV0": 12,
    "3.6-IV1": 13,
    "3.6-IV2": 14,
    "3.7-IV0": 15,
    "3.7-IV1": 16,
    "3.7-IV2": 17,
    "3.7-IV3": 18,
    "3.7-IV4": 19,
    "3.8-IV0": 20,
    "3.9-IV0": 21,
    "4.0-IV0": 22,
    "4.0-IV1": 23,
    "4.0-IV2": 24,
    "4.0-IV3": 25,
    "4.1-IV0": 26,
    "4.1-IV1": 27,
    "4.2-IV0": 28,
    "4.2-IV1": 29,
    "4.3-IV0": 30,
}
# The first metadata.version at which a release has a feature at a level.
FEATURE_LEVELS: dict[str, tuple[tuple[int, int], ...]] = {
    "kraft.version": ((21, 1),),
    "transaction.version": ((24, 2),),
    "group.version": ((22, 1),),
    "eligible.leader.replicas.version": ((26, 1),),
    "share.version": ((28, 1),),
    "streams.version": ((29, 1),),
}

# Level of metadata.version that a feature's level requires (FeatureVersion.dependencies); the others need nothing.
DEPENDENCIES: dict[tuple[str, int], int] = {("eligible.leader.replicas.version", 1): 23}
# The highest level of each feature in Kafka 4.3.
LEVELS_MAX = {name: max(level for _, level in steps) for name, steps in FEATURE_LEVELS.items()}

SUPPORTED = f"Supported {METADATA_VERSION} are:"


class LevelError(ValueError):
    """An invalid feature, level or release; the message has the reason."""


def level_name(feature: str, level: int) -> str:
    """Return a level as Kafka prints it: metadata.version by its name, others as a number."""
    if feature != METADATA_VERSION:
        return str(level)
    return next((name for name, known in METADATA_LEVELS.items() if known == level), f"UNKNOWN {level}")


def metadata_level(release: str) -> int:
    """Return the level of metadata.version of a release: 4.3, or 4.3-IV0. Raises LevelError."""
    found = [level for name, level in METADATA_LEVELS.items() if name == release or name.startswith(f"{release}-")]
    if not found:
        raise LevelError(f"Unknown {METADATA_VERSION} '{release}'. {SUPPORTED} {', '.join(METADATA_LEVELS)}")
    return max(found)


def release_levels(release: str) -> dict[str, int]:
    """Return the level of every feature at a release. Raises LevelError."""
    version = metadata_level(release)
    found = {METADATA_VERSION: version}
    for feature, steps in FEATURE_LEVELS.items():
        found[feature] = max((level for first, level in steps if version >= first), default=0)
    return found


def parse_levels(texts: Sequence[str]) -> dict[str, int]:
    """Read FEATURE=LEVEL. Raises LevelError."""
    found: dict[str, int] = {}
    for text in texts:
        name, equals, level = (part.strip() for part in text.partition("="))
        if not equals:
            raise LevelError(f"Can't parse feature=level string {text}: equals sign not found.")
        if SHORT.fullmatch(level) is None or not -INT16_MAX - 1 <= int(level) <= INT16_MAX:
            raise LevelError(f"Can't parse feature=level string {text}: unable to parse {level} as a short.")
        if name in found:
            raise LevelError(f"Feature {name} was specified more than once.")
        found[name] = int(level)
    return found


def mapping_lines(release: str | None) -> list[str]:
    """Return the levels of a release, or of the newest, as Kafka's tools print them. Raises LevelError."""
    given = list(METADATA_LEVELS)[-1] if release is None else release
    found = release_levels(given)
    rest = [f"{feature}={level}" for feature, level in found.items() if feature != METADATA_VERSION]
    return [f"{METADATA_VERSION}={found[METADATA_VERSION]} ({given})", *rest]


def dependency_lines(texts: Sequence[str]) -> list[str]:
    """Return what features need, given as FEATURE=LEVEL. Raises LevelError."""
    lines = []
    for feature, level in parse_levels(texts).items():
        if feature == METADATA_VERSION:
            if level not in METADATA_LEVELS.values():
                raise LevelError(f"Unknown {METADATA_VERSION} {level}")
            lines.append(f"{feature}={level} ({level_name(feature, level)}) has no dependencies.")
            continue
        if feature not in LEVELS_MAX:
            raise LevelError(f"Unknown feature: {feature}")
        if not 0 <= level <= LEVELS_MAX[feature]:
            raise LevelError(f"Feature level {level} is not supported for feature {feature}")
        needed = DEPENDENCIES.get((feature, level))
        if needed is None:
            lines.append(f"{feature}={level} has no dependencies.")
        else:
            name = level_name(METADATA_VERSION, needed)
            lines += [f"{feature}={level} requires:", f"    {METADATA_VERSION}={needed} ({name})"]
    return lines
