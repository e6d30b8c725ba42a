"""Syntax colours from the theme, for code in replies and for diffs."""

from __future__ import annotations

from collections.abc import Sequence

from pygments.lexers import find_lexer_class_for_filename  # type: ignore[import-untyped]
from pygments.token import Token  # type: ignore[import-untyped]
from textual.content import Content
from textual.highlight import HighlightTheme, TokenType, highlight

MAX_COLOURED_CHARS = 50_000
"""Longer code stays plain: a lexer takes about a second for a megabyte."""

MAX_TINT_WIDTH = 68
"""Columns to which the colours of a change are filled: with its margin it fits into 80."""
DIFF_STYLES = {"+": "bold $success", "-": "bold $error"}


class CodeColours(HighlightTheme):
    """Few colours, all of them of the theme: names and punctuation stay plain."""

    STYLES: dict[TokenType, str] = {
        Token.Comment: "dim italic",
        Token.Keyword: "$accent",
        Token.Literal.Number: "$warning",
        Token.Literal.String: "$success",
        Token.Name.Builtin: "$secondary",
        Token.Name.Class: "bold",
        Token.Name.Decorator: "$secondary",
        Token.Name.Function: "bold",
        Token.Name.Tag: "$accent",
        Token.Operator.Word: "$accent",
    }


def coloured(code: str, language: str) -> list[Content]:
    """Return the lines of a piece of code; an unknown language stays plain."""
    # A form feed or a separator of Unicode begins no new line: callers rely on the number of lines.
    lines = [" ".join(line.splitlines()) for line in code.expandtabs(4).split("\n")]
    if not language or len(code) > MAX_COLOURED_CHARS:
        return [Content(line) for line in lines]
    # Without a last line that is not empty, Textual would drop an empty one.
    shown = highlight("\n".join([*lines, "."]), language=language, theme=CodeColours)
    return shown.split("\n", allow_blank=True)[:-1]


def diff_lines(rows: Sequence[tuple[str, str]], path: str) -> list[Content]:
    """Return the lines of a change with their numbers: removed ones in one colour, others by their syntax."""
    width = max((len(number) for number, _ in rows), default=1)
    code = coloured("\n".join(line[1:] for _, line in rows), language_of(path))
    tint_width = min(max((line.cell_length for line in code), default=0), MAX_TINT_WIDTH)
    return [
        Content.assemble(
            (f"{number:>{width}} ", "dim"),
            (f"{line[:1]} ", DIFF_STYLES.get(line[:1], "")),
            _tinted(line, text, tint_width),
        )
        for (number, line), text in zip(rows, code, strict=True)
    ]


def _tinted(line: str, code: Content, width: int) -> Content:
    filled = code.pad_right(max(0, width - code.cell_length))
    match line[:1]:
        case "+":
            return filled.stylize_before("$added")
        case "-":
            return Content(filled.plain).stylize("$removed")
        case _:
            return code


def language_of(path: str) -> str:
    """Return the name of the language of a file by its name; empty if unknown."""
    found = find_lexer_class_for_filename(path)
    return found.aliases[0] if found is not None and found.aliases else ""
