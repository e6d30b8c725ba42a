"""The site of the documentation is complete and searchable, and loads nothing from elsewhere."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.test_docs import PAGES, name_of, rows
from tests.server.console.browser import chromium

ROOT = Path(__file__).parents[2]
TABLES = ("The model", "Memory", "Files and sessions", "Server, gateway, console")
LOADED = re.compile(r"""<(?:script|img|link|iframe|source)\b[^>]*?\b(?:src|href)=["']([^"']+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.slow
def test_every_page_of_the_docs_is_a_page_of_the_site(site: Path) -> None:
    ours = [page.relative_to(ROOT / "docs") for page in PAGES if page.is_relative_to(ROOT / "docs")]
    assert [str(page) for page in ours if not (site / page.with_suffix(".html")).is_file()] == []
    tabs = re.findall(
        r'md-tabs__link">\s*(\S[^<]*?)\s*</a>', (site / "index.html").read_text(encoding="utf-8")
    )
    assert tabs == ["Start", "Tutorial", "How-to", "Reference", "Explanation", "Help"]


@pytest.mark.slow
def test_no_page_of_the_site_loads_anything_from_elsewhere(site: Path) -> None:
    loaded = {
        link
        for page in site.rglob("*.html")
        for link in LOADED.findall(page.read_text(encoding="utf-8"))
        if "://" in link
    }
    assert loaded == set()
    styles = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    assert styles
    assert [found for text in styles for found in re.findall(r"url\(\s*[\"']?https?:[^)]*", text)] == []


@pytest.mark.slow
def test_the_search_finds_the_text_of_pages_and_not_their_code(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"] if "memoryHome" in entry["text"]}
    assert "how-to/use-in-claude-code.html" in found
    assert not any(entry["location"].endswith(".py.html") for entry in index["docs"])
    shim = (site / "theme" / "iframe-worker.js").read_text(encoding="utf-8")
    assert 'location.protocol==="file:"' in shim


@pytest.mark.slow
def test_the_files_for_language_models_have_every_page_and_links_that_work(site: Path) -> None:
    whole = (site / "llms-full.txt").read_text(encoding="utf-8")
    for page in PAGES:
        if page.is_relative_to(ROOT / "docs") or page.name in ("README.md", "ARCHITECTURE.md"):
            assert f"<!-- {name_of(page)} -->\n\n{page.read_text(encoding='utf-8')}" in whole
    links = re.findall(r"\]\(([^)\s#]+)\)", (site / "llms.txt").read_text(encoding="utf-8"))
    assert len(links) > 40
    assert [link for link in links if not (site / link).is_file()] == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [375, 1280])
def test_a_browser_without_a_network_searches_the_site_and_shows_no_page_too_wide(
    site: Path, width: int
) -> None:
    requests: list[str] = []
    with chromium() as browser:
        page = browser.new_page(viewport={"width": width, "height": 800})
        page.on("request", lambda request: requests.append(request.url))
        for name in ("why/measured.html", "reference/cli.html", "why/leaderboard.html", "index.html"):
            page.goto((site / name).as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        page.click("label[for=__search]:visible >> nth=0" if width < 900 else "input.md-search__input")
        results = page.locator(".md-search-result__item")
        for _ in range(10):  # words that are typed before the index is loaded are not searched
            page.fill("input.md-search__input", "")
            page.type("input.md-search__input", "memoryHome")
            page.wait_for_timeout(1_000)
            if results.count():
                break
        assert "Claude Code" in results.first.inner_text()
    assert [one for one in requests if not one.startswith(("file:", "data:", "blob:"))] == []


def literals() -> Iterator[str]:
    """Every text in nacre's code; of formatted ones, each piece between two values."""
    for path in (ROOT / "src" / "nacre").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield " ".join(node.value.split())


def test_every_message_that_troubleshooting_explains_is_one_of_nacre() -> None:
    page = (ROOT / "docs" / "help" / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = [
        found[1]
        for title in TABLES
        for row in rows(page, title)
        if (found := re.fullmatch(r"`(.+)`", row[0]))
    ]
    assert len(quoted) > 20
    known = "\0".join(literals())
    pieces = [piece for message in quoted for piece in re.split(r"\s*…[):,;\s]*", message) if len(piece) > 3]
    assert [piece for piece in pieces if piece.strip(" (") not in known] == []
