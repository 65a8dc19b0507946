"""The documents: all of them are in the index, and what they point to is there."""

import re
from pathlib import Path

import pytest

from tests.monitoring import ROOT

DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?://)([^)#]+)(?:#[^)]*)?\)")
NAMED = re.compile(r"(?<![\w/.-])((?:docs|configs|tests|tools)/[\w./*@-]*[\w*])")
"""A path from the checkout's root, as pages name them in their text."""


def every(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_the_index_has_every_page() -> None:
    text = INDEX.read_text()
    pages = [path.name for path in DOCS.glob("*.md") if path != INDEX]
    assert [name for name in pages if f"({name})" not in text] == []


@pytest.mark.parametrize("path", PAGES, ids=every)
def test_links_lead_somewhere(path: Path) -> None:
    assert [link for link in LINK.findall(path.read_text()) if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("path", PAGES, ids=every)
def test_files_that_a_page_names_are_there(path: Path) -> None:
    named = set(NAMED.findall(path.read_text()))
    assert [name for name in sorted(named) if not list(ROOT.glob(name)) and not list(ROOT.glob(f"{name}*"))] == []
