"""Hooks of `make site`: the navigation, files outside docs/ that pages link to, llms.txt and llms-full.txt.

docs/index.md is the only list of pages: each section becomes a tab, each bold line a group. A linked file of
the repository is shown below `repository/`: Markdown as a page, code as a page.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
OUTSIDE = "repository"
TABS = {
    "Learn": "Tutorial",
    "Do": "How-to",
    "Look up": "Reference",
    "Understand": "Explanation",
    "Help": "Help",
}
"""The tab of each section of docs/index.md."""
_LINK = re.compile(r"(?<=\]\()([^)\s:#]+)((?:#[^)\s]*)?)(?=\))")
_FOLDER = re.compile(r"\[([^\]]*)\]\(([^)\s:#]+)\)")
_SHIM = re.compile(r"https://[^\"]*/iframe-worker/shim")
SHOWN_AS_CODE = {".py": "python", ".ts": "typescript"}
NO_SEARCH = "---\nsearch:\n  exclude: true\n---\n\n"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.nav = navigation((DOCS / "index.md").read_text(encoding="utf-8"))
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the files of the repository that pages and llms.txt link to, and those that they link to."""
    for path in outside_files():
        files.append(_shown(path, config))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a page with links that lead within the site, and fences that its parser knows."""
    text = re.sub(r"^```python no-run$", "```python", markdown, flags=re.MULTILINE)
    text = re.sub(r"^\|.*$", _without_escapes, text, flags=re.MULTILINE)
    text = text.replace("<![", "<\u200b![")  # MkDocs reads it as the start of a CDATA section, also in code
    return _relinked(text, _source(page.file.src_uri), page.file.src_uri)


def _without_escapes(row: re.Match[str]) -> str:
    """Return a row of a table without the backslash before a bar in code, which only GitHub needs."""
    return re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), row[0])


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Load the script that search needs in files from the site itself; Material names a server for it."""
    local = posixpath.relpath("theme/iframe-worker.js", posixpath.dirname(page.url) or ".")
    return _SHIM.sub(local, output)


def on_post_template(output_content: str, *, template_name: str, config: MkDocsConfig) -> str:
    return _SHIM.sub("/theme/iframe-worker.js", output_content)


def on_post_build(*, config: MkDocsConfig) -> None:
    """Write every page as Markdown beside its HTML, and the two files for language models."""
    site = Path(config.site_dir)
    for path in [*sorted(DOCS.rglob("*.md")), *outside_files()]:
        (site / _raw_path(path)).write_bytes(path.read_bytes())
    (site / "llms.txt").write_text(llms_txt(), encoding="utf-8")
    (site / "llms-full.txt").write_text(llms_full(), encoding="utf-8")


def navigation(index: str) -> list[dict[str, object]]:
    """Return the tabs, with the groups and pages of each section in the order of the index."""
    tabs: list[dict[str, object]] = [{"Start": ["index.md"]}]
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        entries: list[object] = []
        group = entries
        for line in re.split(r"\n(?=- |\*\*)", body):
            if bold := re.match(r"\*\*(.+?)\*\*", line.strip()):
                group = []
                entries.append({bold[1]: group})
                line = line[bold.end() :]
            pages = [link for link, _ in _LINK.findall(line) if link.endswith(".md")]
            inside = [_site_path(DOCS / link) for link in pages]
            group += [{"Specification": inside}] if len(inside) > 2 else inside
        tabs.append({TABS[title]: entries})
    return tabs


def outside_files() -> list[Path]:
    """Return every file outside docs/ that a page or llms.txt links to, and those that these link to."""
    waiting = [ROOT / "llms.txt", *sorted(DOCS.rglob("*.md"))]
    found: list[Path] = []
    while waiting:
        for path in sorted(_linked(waiting.pop())):
            if path not in found and path.is_file() and not path.is_relative_to(DOCS):
                found.append(path)
                waiting += [path] if path.suffix == ".md" else []
    return found


def pages_in_order() -> list[Path]:
    """Return every page that the index links to, the index first."""
    index = DOCS / "index.md"
    found = [(DOCS / link).resolve() for link, _ in _LINK.findall(index.read_text(encoding="utf-8"))]
    return list(dict.fromkeys([index, *(path for path in found if path.suffix == ".md")]))


def llms_txt() -> str:
    """Return llms.txt with links to the pages of the site."""
    text = (ROOT / "llms.txt").read_text(encoding="utf-8")
    return _LINK.sub(lambda found: f"{_raw_path(ROOT / found[1])}{found[2]}", text)


def llms_full() -> str:
    """Return every page of the index, whole, with its path before it."""
    pages = [ROOT / "README.md", *pages_in_order()]
    return "\n".join(
        f"<!-- {path.relative_to(ROOT)} -->\n\n{path.read_text(encoding='utf-8')}" for path in pages
    )


def _linked(page: Path) -> Iterator[Path]:
    for link, _ in _LINK.findall(page.read_text(encoding="utf-8")):
        yield (page.parent / link).resolve()


def _shown(path: Path, config: MkDocsConfig) -> File:
    uri = _site_path(path)
    if language := SHOWN_AS_CODE.get(path.suffix):
        name, code = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        text = f"{NO_SEARCH}# {name}\n\n~~~{language}\n{code}~~~\n"
        return File.generated(config, uri, content=text)
    return File.generated(config, uri, abs_src_path=str(path))


def _raw_path(path: Path) -> str:
    """Return where the site has a file of the repository as it is."""
    path = path.resolve()
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    return f"{OUTSIDE}/{path.relative_to(ROOT).as_posix()}"


def _site_path(path: Path) -> str:
    """Return where a file of the repository is in the site's sources; code is shown as a page."""
    uri = _raw_path(path)
    return f"{uri}.md" if path.suffix in SHOWN_AS_CODE else uri


def _source(uri: str) -> Path:
    """Return the file of the repository that a page of the site shows."""
    inside = uri.removeprefix(f"{OUTSIDE}/")
    return DOCS / uri if inside == uri else ROOT / inside


def _relinked(text: str, source: Path, uri: str) -> str:
    """Return Markdown whose links lead to the files of the site; a link to a folder becomes its text."""

    def path_of(link: str) -> str:
        return posixpath.relpath(_site_path(source.parent / link), posixpath.dirname(uri) or ".")

    text = _FOLDER.sub(lambda found: found[1] if (source.parent / found[2]).is_dir() else found[0], text)
    return _LINK.sub(lambda found: f"{path_of(found[1])}{found[2]}", text)
