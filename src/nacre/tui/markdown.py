"""Markdown as lines of a given width; pure, and much cheaper than a widget per block.

Nothing is turned into a link that is not written as one, so that `billing.py` stays a file name.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from textual.content import Content
from textual.style import Style

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

CODE_INDENT = "  "
QUOTE = "▌ "
BULLETS = "•◦▪"
"""By depth; deeper lists repeat them."""
BETWEEN_CELLS = "  "
LEAST_CELL = 4
"""Columns of a table's cell, however narrow the screen."""
LEAST_WIDTH = 10
"""Columns of text in a deep list, however narrow the screen."""
LONG_OPEN_CHARS = 3_000
"""A block longer than this is split while it grows, so that an update stays cheap."""
FENCE_LINES = 3
"""Lines of the shortest piece of code that is split."""
LINKS = ("http://", "https://", "mailto:")
"""Only these are passed to the terminal as links."""
_INLINE = {
    "strong": "bold",
    "em": "italic",
    "s": "strike",
}


@cache
def parser() -> MarkdownIt:
    """Return the parser; imported with the first reply, so that the screen starts quickly."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


class SplitText(NamedTuple):
    """A text in two: blocks that do not change any more, and the block that may still grow."""

    finished: str
    open: str
    is_continued: bool
    """Whether the open text continues the finished one without an empty line."""


def split_open(text: str) -> SplitText:
    """Split a text before its last block; a long list or piece of code is split before its last line."""
    tokens = parser().parse(text)
    starts = [token.map[0] for token in tokens if token.map and token.level == 0 and token.nesting >= 0]
    lines = text.splitlines(keepends=True)
    if len(starts) > 1:
        return SplitText("".join(lines[: starts[-1]]), "".join(lines[starts[-1] :]), is_continued=False)
    if tokens and len(text) > LONG_OPEN_CHARS:
        first = tokens[0]
        is_closed = lines[-1].strip() == first.markup
        if first.type == "fence" and len(lines) > FENCE_LINES and not is_closed:
            done = "".join([*lines[:-1], first.markup, "\n"])
            return SplitText(done, lines[0] + lines[-1], is_continued=True)
        items = [token.map[0] for token in tokens if token.map and token.level == 1 and token.nesting > 0]
        if first.type.endswith("_list_open") and items[-1]:
            return SplitText("".join(lines[: items[-1]]), "".join(lines[items[-1] :]), is_continued=True)
    return SplitText("", text, is_continued=False)


def rendered(text: str, width: int) -> list[Content]:
    """Return the lines of a Markdown text, with an empty one between blocks."""
    from markdown_it.tree import SyntaxTreeNode

    return _blocks(SyntaxTreeNode(parser().parse(text)).children, max(width, LEAST_WIDTH))


def _blocks(nodes: Sequence[SyntaxTreeNode], width: int, depth: int = 0) -> list[Content]:
    lines: list[Content] = []
    for node in nodes:
        # A list belongs to the paragraph of its list item.
        if lines and not (depth and node.type.endswith("_list")):
            lines.append(Content())
        lines += _block(node, width, depth)
    return lines


def _block(node: SyntaxTreeNode, width: int, depth: int) -> list[Content]:
    match node.type:
        case "heading":
            style = "bold underline" if node.tag == "h1" else "bold"
            return _wrapped(_inline(node.children[0]).stylize(style), width)
        case "paragraph" | "inline":
            return _wrapped(_inline(node.children[0] if node.type == "paragraph" else node), width)
        case "bullet_list" | "ordered_list":
            return _list(node, width, depth)
        case "fence" | "code_block":
            return _code(node.content, node.info.split()[0] if node.info.strip() else "", width)
        case "blockquote":
            inner = _blocks(node.children, max(LEAST_WIDTH, width - len(QUOTE)))
            return [Content.assemble((QUOTE, "$secondary"), line.stylize("dim")) for line in inner]
        case "hr":
            return [Content.styled("─" * width, "dim")]
        case "table":
            return _table(node, width)
        case _:
            return _wrapped(Content(node.content.rstrip("\n")), width)


def _wrapped(text: Content, width: int) -> list[Content]:
    return [part.rstrip() for line in text.split("\n") for part in line.wrap(width)] or [Content()]


def _list(node: SyntaxTreeNode, width: int, depth: int) -> list[Content]:
    lines: list[Content] = []
    first = int(node.attrs.get("start", 1))
    last = first + len(node.children) - 1
    for number, item in enumerate(node.children, first):
        is_ordered = node.type == "ordered_list"
        mark = f"{number:>{len(str(last))}}. " if is_ordered else f"{BULLETS[depth % len(BULLETS)]} "
        inner = _blocks(item.children, max(LEAST_WIDTH, width - len(mark)), depth + 1) or [Content()]
        lines.append(Content.assemble((mark, "$secondary"), inner[0]))
        lines += [Content.assemble(" " * len(mark), line) if line else line for line in inner[1:]]
    return lines


def _code(code: str, language: str, width: int) -> list[Content]:
    from nacre.tui.code import coloured

    room = max(LEAST_WIDTH, width - len(CODE_INDENT))
    return [
        Content.assemble(CODE_INDENT, part)
        for line in coloured(code.rstrip("\n"), language)
        for part in (line.fold(room) if line.cell_length > room else [line])
    ]


def _table(node: SyntaxTreeNode, width: int) -> list[Content]:
    rows = [row for part in node.children for row in part.children]
    cells = [[_inline(cell.children[0]) for cell in row.children] for row in rows]
    aligns = [str(cell.attrs.get("style", "")).removeprefix("text-align:") for cell in rows[0].children]
    widths = _column_widths(cells, width)
    lines: list[Content] = []
    for place, row in enumerate(cells):
        wrapped = [_wrapped(cell, room) for cell, room in zip(row, widths, strict=True)]
        for at in range(max(map(len, wrapped))):
            parts = [
                _aligned(cell[at] if at < len(cell) else Content(), room, align)
                for cell, room, align in zip(wrapped, widths, aligns, strict=True)
            ]
            line = Content(BETWEEN_CELLS).join(parts)
            lines.append((line.stylize("bold") if place == 0 else line).rstrip())
        if place == 0:
            lines.append(Content.styled(BETWEEN_CELLS.join("─" * room for room in widths), "dim"))
    return lines


def _column_widths(cells: Sequence[Sequence[Content]], width: int) -> list[int]:
    """Return the natural widths; where they do not fit, the widest columns give way."""
    widths = [max(1, *(row[at].cell_length for row in cells)) for at in range(len(cells[0]))]
    room = width - len(BETWEEN_CELLS) * (len(widths) - 1)
    while sum(widths) > room and max(widths) > LEAST_CELL:
        widths[widths.index(max(widths))] -= 1
    return widths


def _aligned(cell: Content, width: int, align: str) -> Content:
    missing = max(0, width - cell.cell_length)
    left = {"right": missing, "center": missing // 2}.get(align, 0)
    return cell.pad_left(left).pad_right(missing - left)


def _inline(node: SyntaxTreeNode) -> Content:
    return Content.assemble(*(_span(child) for child in node.children))


def _span(node: SyntaxTreeNode) -> Content:
    match node.type:
        case "code_inline":
            return Content.styled(node.content, "bold $secondary")
        case "softbreak":
            return Content(" ")
        case "hardbreak":
            return Content("\n")
        case "link":
            target = str(node.attrs.get("href", ""))
            style = Style(underline=True, link=target if target.startswith(LINKS) else None)
            return _inline(node).stylize(style)
        case "image":
            return Content.styled(f"[{node.content or 'image'}]", "dim")
        case kind if kind in _INLINE:
            return _inline(node).stylize(_INLINE[kind])
        case _:
            return Content(node.content)
