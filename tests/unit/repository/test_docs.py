"""The documents: all of them are in the index, and what they point to is there."""

import re

from tests.monitoring import ROOT

DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?://)([^)#]+)(?:#[^)]*)?\)")
NAMED = re.compile(r"(?<![\w/.-])((?:docs|configs|tests|tools)/[\w./*@-]*[\w*])")
"""A path from the checkout's root, as pages name them in their text."""


def test_the_index_has_every_page() -> None:
    text = INDEX.read_text()
    pages = [path.name for path in DOCS.glob("*.md") if path != INDEX]
    assert [name for name in pages if f"({name})" not in text] == []


def test_links_lead_somewhere() -> None:
    links = [(path, link) for path in PAGES for link in LINK.findall(path.read_text())]
    assert len(links) > 20
    assert [f"{path}: {link}" for path, link in links if not (path.parent / link).exists()] == []


def test_files_that_pages_name_exist() -> None:
    pages: dict[str, list[str]] = {}
    for path in PAGES:
        for name in set(NAMED.findall(path.read_text())):
            pages.setdefault(name, []).append(path.name)
    assert len(pages) > 100
    missing = [name for name in pages if not list(ROOT.glob(name)) and not list(ROOT.glob(f"{name}*"))]
    assert [f"{pages[name]}: {name}" for name in missing] == []
