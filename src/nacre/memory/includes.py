"""What a Markdown file of instructions pulls in, and what of it is not meant for the model (M23).

Pure text in, text out. Every scan is linear: a repository may bring a file that was made to be slow.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

MAX_NAMES = 1_000
"""Includes looked up for one file; each costs a look at the disk, and nobody writes more by hand."""

TEXT_SUFFIXES = frozenset(
    """
    .adoc .asciidoc .asm .astro .awk .bash .bat .bib .c .cc .cfg .cjs .clj .cljs .cmake .cmd .conf .cpp .cs
    .css .csv .cts .cxx .dart .diff .dockerfile .edn .el .elm .env .erb .erl .ex .exs .f90 .feature .fish .fs
    .go .gql .gradle .graphql .groovy .h .haml .hbs .hcl .hh .hpp .hrl .hs .htm .html .hxx .inc .ini .ino
    .ipynb .java .jl .js .json .json5 .jsonc .jsonl .jsx .kt .kts .latex .less .lhs .liquid .lisp .log .lua
    .m .make .markdown .md .mdc .mdx .mjs .mk .ml .mli .mm .mts .mustache .nim .nix .org .pas .patch .php .pl
    .plist .pm .po .pod .pot .prisma .properties .proto .ps1 .psm1 .pug .purs .py .pyi .pyx .r .rake .rb .re
    .rkt .rmd .rs .rst .sass .sbt .scala .scm .scss .sh .sol .sql .styl .svelte .svg .swift .tcl .templ .tex
    .text .tf .tfvars .thrift .tmpl .toml .ts .tsv .tsx .twig .txt .typ .v .vb .vhd .vim .vue .wat .xml .xsd
    .xsl .yaml .yml .zig .zsh
    """.split()
)
"""What may be pulled in by its ending; a name without one may be as well."""

_LEAD = r"^[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?"
_OPENER = re.compile(
    rf"(?P<fence>{_LEAD}(?P<bar>`{{3,}}(?=[^`\n]*$)|~{{3,}}).*$)|(?P<ticks>`+)|(?P<comment><!--)",
    re.MULTILINE,
)
_BREAK = re.compile(rf"^[ \t]*$|{_LEAD}(?:`{{3,}}[^`\n]*$|~{{3,}})|^[ \t]*<!--", re.MULTILINE)
"""Where a paragraph ends at the latest, and with it every code span."""
_NAME = re.compile(r"(?<!\S)@((?:\\ |\S)+)")
_REST_OF_LINE = re.compile(r"[ \t]*(?:\n|\Z)")
_TRAILING = ".,;:!?)]}>\"'*_"
"""What a sentence puts behind a path without meaning it as part of the path."""


@dataclass(frozen=True, slots=True)
class _Piece:
    kind: Literal["text", "code", "comment", "block comment"]
    start: int
    end: int


def includes_in(text: str) -> tuple[str, ...]:
    """The paths named by `@path` outside of code and comments, each once, in order of appearance."""
    names: dict[str, None] = {}
    for piece in _pieces(text):
        if piece.kind != "text":
            continue
        for found in _NAME.finditer(text, piece.start, piece.end):
            name = found[1].partition("#")[0].replace("\\ ", " ")
            if name:
                names.setdefault(name)
            if len(names) == MAX_NAMES:
                return tuple(names)
    return tuple(names)


def spellings(name: str) -> tuple[str, ...]:
    """A path as it stands, and without the punctuation of the sentence around it."""
    bare = name.rstrip(_TRAILING)
    return (name, bare) if bare and bare != name else (name,)


def without_comments(text: str) -> str:
    """The text less its HTML comments that begin a line; those in code stay, and so does one never closed."""
    kept: list[str] = []
    start = 0
    for piece in _pieces(text):
        if piece.kind == "block comment":
            kept.append(text[start : piece.start])
            start = piece.end
    return "".join([*kept, text[start:]])


def is_text_name(path: PurePath) -> bool:
    """Whether a file may be pulled in, going by how its name ends."""
    return path.suffix == "" or path.suffix.lower() in TEXT_SUFFIXES


def _pieces(text: str) -> Iterator[_Piece]:
    """The text cut into prose, code and comments; whatever opens first decides."""
    spans = _Spans(text)
    has_comments = True
    is_after_block = True
    position = start = 0
    while opener := _OPENER.search(text, position):
        position = opener.end()
        piece: _Piece | None = None
        if opener["fence"] is not None:
            piece = _fenced(text, opener)
        elif opener["ticks"] is not None:
            piece = spans.code(opener)
        elif has_comments:
            piece = _comment(text, opener.start(), start, is_after_block=is_after_block)
            has_comments = piece is not None
        if piece is None:
            continue
        if piece.start > start:
            yield _Piece("text", start, piece.start)
        yield piece
        is_after_block = piece.kind == "block comment"
        position = start = piece.end
    if start < len(text):
        yield _Piece("text", start, len(text))


def _fenced(text: str, opener: re.Match[str]) -> _Piece:
    """A fenced block: up to a line with at least as many of the same mark, else to the end of the text."""
    mark, length = opener["bar"][0], len(opener["bar"])
    closer = re.compile(rf"^[ \t>]*{re.escape(mark)}{{{length},}}[ \t]*$", re.MULTILINE)
    found = closer.search(text, opener.end())
    return _Piece("code", opener.start(), found.end() if found else len(text))


def _comment(text: str, begin: int, start: int, *, is_after_block: bool) -> _Piece | None:
    """A comment; one that begins a line is a block, and takes the line along when nothing else is on it."""
    end = text.find("-->", begin + len("<!--"))
    if end < 0:
        return None
    end += len("-->")
    line = text.rfind("\n", start, begin) + 1 or start
    begins_line = line == 0 or text[line - 1] == "\n"
    if text[line:begin].strip(" \t") or not (begins_line or is_after_block):
        return _Piece("comment", begin, end)
    rest = _REST_OF_LINE.match(text, end)
    return _Piece("block comment", line if rest else begin, rest.end() if rest else end)


class _Spans:
    """Where code spans close; found once for the whole text, so that a lone tick costs no second look."""

    def __init__(self, text: str) -> None:
        self._closers: dict[int, list[int]] = {}
        for run in re.finditer("`+", text):
            self._closers.setdefault(len(run[0]), []).append(run.start())
        self._breaks = [found.start() for found in _BREAK.finditer(text)]
        self._text = text

    def code(self, opener: re.Match[str]) -> _Piece | None:
        """The span these ticks open, if as many stand again before the paragraph is over."""
        if opener.start() and self._text[opener.start() - 1] == "\\":
            return None
        length = len(opener["ticks"])
        starts = self._closers[length]
        following = bisect_right(starts, opener.start())
        if following == len(starts) or self._breaks_between(opener.end(), starts[following]):
            return None
        return _Piece("code", opener.start(), starts[following] + length)

    def _breaks_between(self, start: int, end: int) -> bool:
        place = bisect_right(self._breaks, start)
        return place < len(self._breaks) and self._breaks[place] < end
