"""The documents: links and anchors are valid, the index and the site have every page, prose is plain English."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.monitoring import ROOT

DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
OPERATE_INDEX = DOCS / "operations.md"
SITE = ROOT / "mkdocs.yml"
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
MADE_FOR_THE_SITE = {"decisions/README.md", "reference/commands.md", "reference/http.md", "reference/python.md"}
"""By tools/docs_site.py, as are the pages from the top of the checkout."""
FENCE = re.compile(r"^ *```.*?^ *```[^\n]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#]*)(?:#([^)]*))?\)")
NAMED = re.compile(r"(?<![\w/.-])((?:docs|configs|tests|tools)/[\w./*@-]*[\w*])")
"""A path from the checkout's root, as pages name them in their text."""
BANNED = {
    "a person for a thing": r"\b(whoever|whom|somebody|anybody|nobody|everybody)\b",
    "speech for a report": r"\b(tells?|told|is said|are said|says nothing)\b",
    "a homely word": r"\b(anew|mend(s|ed|ing)?|heed(s|ed)?|let go of|gone on with|taken for dead|fate|at the most)\b",
    "lies for is stored": r"\blies? (in|on|at|there)\b",
    "a sentence about what or who": r"(?:^|[.:!?] )(?-i:What|Who|That which) [a-z][^?]*?[.:]",
    "a trailing too": r", too\b",
    "a for per": r"\b(a row a|a line a|one a|once a) (row|thing|node|broker|line|partition|record|page)\b",
    "a litotes": r"\b(is no damage|nothing is no|not as things are)\b",
}


def prose(path: Path) -> str:
    """Return a page without its code blocks and code words."""
    return re.sub(r"`[^`\n]*`", "`code`", FENCE.sub("", path.read_text()))


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    titles = re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def in_navigation(entries: list[Any]) -> Iterator[str]:
    """Give the pages of a part of the site's navigation."""
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            if isinstance(value, str):
                yield value
            else:
                yield from in_navigation(value)


def test_the_index_has_every_page() -> None:
    index, operate = INDEX.read_text(), OPERATE_INDEX.read_text()
    assert [path.name for path in DOCS.glob("*.md") if path != INDEX and f"({path.name})" not in index] == []
    assert [path.name for path in DOCS.glob("operate/*.md") if f"(operate/{path.name}" not in operate] == []


def test_the_sites_navigation_has_every_page_once() -> None:
    found = sorted(in_navigation(yaml.safe_load(SITE.read_text())["nav"]))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if path.parent.name != "decisions"}
    assert found == sorted(pages | MADE_FOR_THE_SITE | {"ARCHITECTURE.md", "CHANGELOG.md", "STYLE.md"})


def test_links_and_anchors_are_valid() -> None:
    broken = []
    for path in PAGES:
        for link, anchor in LINK.findall(FENCE.sub("", path.read_text())):
            target = path.parent / link if link else path
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(f"{path}: {link}#{anchor}")
    assert not broken


def test_files_that_a_page_names_exist() -> None:
    named = [(path, name) for path in PAGES for name in sorted(set(NAMED.findall(path.read_text())))]
    assert not [
        f"{path}: {name}" for path, name in named if not list(ROOT.glob(name)) and not list(ROOT.glob(f"{name}*"))
    ]


def test_prose_is_plain() -> None:
    hits = []
    for path in PAGES:
        text = prose(path)
        for kind, banned in BANNED.items():
            found = re.finditer(banned, text, re.M | re.I)
            hits += [f"{path}: {kind}: {text[max(0, hit.start() - 30) : hit.end() + 30]}" for hit in found]
    assert not hits


def test_each_banned_shape_is_found() -> None:
    """One sentence per kind, of the pages as they were."""
    found = {
        "a person for a thing": "A partition that nobody else in sync can lead it keeps.",
        "speech for a report": "How late the loop is, each process tells.",
        "a homely word": "Format the controller anew.",
        "lies for is stored": "The list lies in the folder.",
        "a sentence about what or who": "What is not said has Kafka's default.",
        "a trailing too": "A controller heard it, too.",
        "a for per": "It says what it did, in a row a thing.",
        "a litotes": "A reassignment is no damage.",
    }
    assert {kind for kind, text in found.items() if re.search(BANNED[kind], text, re.M | re.I)} == set(BANNED)
