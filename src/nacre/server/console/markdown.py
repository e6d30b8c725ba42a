"""Renders a small part of Markdown as HTML that is safe whatever the text says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from markupsafe import Markup, escape

from nacre.formatting import visible

_HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*$")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+(.*)")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_INLINE = re.compile(r"`([^`\n]+)`|\*\*([^*\n]+)\*\*|\[\[([^\[\]\n|#]+)(?:[|#][^\[\]\n]*)?\]\]")

LinkTo = Callable[[str], str]
"""Returns the address of the memory that a link names; empty if there is none."""


def rendered(text: str, link_to: LinkTo = lambda _: "") -> Markup:
    """Return headings, lists, code, bold text and links between memories; all else as it is written."""
    return Markup("\n").join(_blocks(visible(text).splitlines(), link_to))


def _blocks(lines: list[str], link_to: LinkTo) -> Iterator[Markup]:
    place = 0
    while place < len(lines):
        line = lines[place]
        if not line.strip():
            place += 1
        elif fence := _FENCE.match(line):
            end = next((n for n in range(place + 1, len(lines)) if lines[n].strip() == fence[1]), len(lines))
            code = "\n".join(lines[place + 1 : end])
            yield Markup('<pre class="code" tabindex="0"><code>{}</code></pre>').format(code)
            place = end + 1
        elif heading := _HEADING.match(line):
            level = min(6, len(heading[1]) + 2)
            yield Markup('<h{0} dir="auto">{1}</h{0}>').format(level, _inline(heading[2], link_to))
            place += 1
        elif _ITEM.match(line):
            end = place
            while end < len(lines) and lines[end].strip() and (_ITEM.match(lines[end]) or end > place):
                end += 1
            yield Markup("<ul>{}</ul>").format(Markup("").join(_items(lines[place:end], link_to)))
            place = end
        else:
            end = place
            while (
                end < len(lines)
                and lines[end].strip()
                and not _begins_block(lines[end], is_first=end == place)
            ):
                end += 1
            said = Markup("<br>").join(_inline(one, link_to) for one in lines[place:end])
            yield Markup('<p dir="auto">{}</p>').format(said)
            place = end


def _begins_block(line: str, *, is_first: bool) -> bool:
    return not is_first and bool(_FENCE.match(line) or _HEADING.match(line) or _ITEM.match(line))


def _items(lines: list[str], link_to: LinkTo) -> Iterator[Markup]:
    texts: list[str] = []
    for line in lines:
        if found := _ITEM.match(line):
            texts.append(found[1])
        else:
            texts[-1] += f" {line.strip()}"
    for text in texts:
        yield Markup('<li dir="auto">{}</li>').format(_inline(text, link_to))


def _inline(text: str, link_to: LinkTo) -> Markup:
    parts: list[Markup] = []
    at = 0
    for found in _INLINE.finditer(text):
        parts.append(escape(text[at : found.start()]))
        code, strong, link = found.groups()
        if code is not None:
            parts.append(Markup("<code>{}</code>").format(code))
        elif strong is not None:
            parts.append(Markup("<strong>{}</strong>").format(strong))
        elif address := link_to(link.strip()):
            parts.append(Markup('<a href="{}">{}</a>').format(address, link.strip()))
        else:
            parts.append(escape(found[0]))
        at = found.end()
    parts.append(escape(text[at:]))
    return Markup("").join(parts)
