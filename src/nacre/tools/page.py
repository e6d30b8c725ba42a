"""Convert a web page to plain text: headings, lists and links stay, scripts and styles are removed.

Run as a separate process that can be killed: a hostile page can block Python's parser for days. Standard
library only: it starts without nacre and without site.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser

_SKIPPED = frozenset({"script", "style", "noscript", "template", "svg", "head", "iframe"})
_BLOCKS = frozenset(
    "address article aside blockquote br dd div dl dt fieldset figure footer form h1 h2 h3 h4 h5 h6 header hr"
    " li main nav ol p pre section table tr ul".split()
)
_BLANK_LINES = re.compile(r"\n\s*\n\s*\n+")
_SPACES = re.compile(r"[ \t\r\f\v]+")
_ENDLESS_ENTITY = re.compile(r"&#[0-9]{8,};?")
"""No character has such a number, and Python refuses to read a very long one."""


def page_text(html: str) -> str:
    """Return the visible text of a page."""
    reader = _PageReader()
    reader.feed(_ENDLESS_ENTITY.sub("\ufffd", html))
    reader.close()
    lines = (_SPACES.sub(" ", line).strip() for line in "".join(reader.pieces).split("\n"))
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()


class _PageReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._skipping = 0
        self._link: str | None = None

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """Skip `<![…>` as browsers do; Python's parser fails for most of them."""
        return self.parse_bogus_comment(i, report)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SKIPPED:
            self._skipping += 1
        if self._skipping:
            return
        if tag in _BLOCKS:
            self.pieces.append("\n")
        if re.fullmatch(r"h[1-6]", tag):
            self.pieces.append("\n" + "#" * int(tag[1]) + " ")
        elif tag == "li":
            self.pieces.append("- ")
        elif tag == "a":
            self._link = dict(attrs).get("href")
            self.pieces.append("[" if self._link else "")

    def handle_endtag(self, tag: str) -> None:
        if tag in _SKIPPED:
            self._skipping = max(0, self._skipping - 1)
        if self._skipping:
            return
        if tag == "a" and self._link:
            self.pieces.append(f"]({self._link})")
            self._link = None
        if tag in _BLOCKS:
            self.pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._skipping:
            self.pieces.append(data)


if __name__ == "__main__":
    with open(int(sys.argv[1]), "rb") as _source:  # noqa: PTH123  # a descriptor has no path
        _text = page_text(_source.read().decode("utf-8", "surrogatepass"))
    sys.stdout.buffer.write(_text.encode("utf-8", "replace"))
