"""What a Markdown file of instructions pulls in, and what of it is not meant for the model (M23).

Pure text in, text out. Every scan is linear: a repository may bring a file that was made to be slow.
"""

from __future__ import annotations

import fnmatch
import os
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
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
    mark = opener["bar"][0]
    length = len(opener["bar"])
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


MAX_HEAD_LINES = 200
"""A head that is longer is not one: somebody drew two lines across a page."""
MAX_PATTERNS = 1_000
"""Patterns of one rule after its braces are written out; `{a,b}{a,b}…` doubles with every pair."""
MAX_PATTERN_CHARS = 1_000
"""A longer pattern is longer than a path can be."""

_PATHS = re.compile(r"paths[ \t]*:(.*)", re.IGNORECASE)
_ITEM = re.compile(r"[ \t]*-(?:[ \t]+(.*)|[ \t]*$)")
_BRACES = re.compile(r"\{([^{}]*)\}")
_REMARK = re.compile(r"(?:^|[ \t])#.*$")


@dataclass(frozen=True, slots=True)
class Globs:
    """The patterns of one rule, and the folder they are relative to."""

    base: Path
    patterns: tuple[str, ...]

    def matches(self, path: Path) -> bool:
        """Whether a file is meant; the last pattern that fits decides, and nothing outside the base is."""
        return any(self._covers(inside) for inside in _inside(path, self.base))

    def _covers(self, inside: PurePosixPath) -> bool:
        is_meant = False
        for pattern in self.patterns:
            bare = pattern.removeprefix("!")
            if bare != pattern:
                is_meant = is_meant and not _fits(bare, inside.parts)
            else:
                is_meant = is_meant or _fits(pattern, inside.parts)
        return is_meant


def split_head(text: str) -> tuple[tuple[str, ...], str]:
    """The globs in the head of a rule file, and the text after the head; no globs means always."""
    lines = text.split("\n", MAX_HEAD_LINES + 1)
    if lines[0].rstrip() != "---":
        return (), text
    ends = (number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---")
    end = next(ends, None)
    if end is None:
        return (), text
    patterns = tuple(dict.fromkeys(_written_out(_patterns(lines[1:end]))))
    is_for_all = all(set(pattern) <= {"*", "/"} for pattern in patterns)
    return () if is_for_all else patterns, "\n".join(lines[end + 1 :])


def is_any(path: Path, patterns: tuple[str, ...]) -> bool:
    """Whether an absolute path is meant by globs on absolute paths."""
    return Globs(Path("/"), tuple(_written_out(patterns))).matches(path)


def _patterns(head: list[str]) -> list[str]:
    """What stands under `paths:`: a list in either form of YAML, or a string with commas.

    Read by hand: `*.py` and `{a,b}` mean something else in YAML, and people write them bare.
    """
    start = next((number for number, line in enumerate(head) if _PATHS.match(line)), None)
    if start is None:
        return []
    following = []
    for line in head[start + 1 :]:
        if line[:1] not in {"", " ", "\t", "-", "]", "#"}:
            break
        following.append(line)
    first = _PATHS.match(head[start])
    same_line = _REMARK.sub("", first[1] if first else "").strip()
    items = [_ITEM.match(line) for line in following]
    if not same_line and any(items):
        return [_bare(item[1] or "") for item in items if item]
    joined = ",".join([same_line, *(_REMARK.sub("", line).strip() for line in following)]).strip(", ")
    return [_bare(part) for part in _parts(joined.removeprefix("[").removesuffix("]"))]


def _bare(item: str) -> str:
    """One pattern without its quotes, or without a remark behind it."""
    item = item.strip()
    for quote in "\"'":
        if item.startswith(quote) and (end := item.find(quote, 1)) > 0:
            return item[1:end].strip()
    # One quote may be left: a quoted string with commas was cut at them.
    return _REMARK.sub("", item).strip().strip("\"'").strip()


def _parts(joined: str) -> Iterator[str]:
    """The text cut at its commas, except those inside braces."""
    depth = start = 0
    for place, letter in enumerate(joined):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth <= 0:
            yield joined[start:place]
            start = place + 1
    yield joined[start:]


def _written_out(patterns: list[str] | tuple[str, ...]) -> Iterator[str]:
    """Every pattern without braces; what goes over the limit is left out."""
    waiting = [pattern for pattern in reversed(patterns) if pattern]
    given = 0
    while waiting and given < MAX_PATTERNS:
        pattern = waiting.pop()
        if len(pattern) > MAX_PATTERN_CHARS:
            continue
        if inner := _BRACES.search(pattern):
            choices = [
                pattern[: inner.start()] + choice + pattern[inner.end() :] for choice in inner[1].split(",")
            ]
            waiting.extend(reversed(choices))
        else:
            given += 1
            yield pattern


def _inside(path: Path, base: Path) -> Iterator[PurePosixPath]:
    """The path as seen from the base, as it is named and as it really is."""
    named = Path(os.path.abspath(path))  # noqa: PTH100  # Path.resolve would follow links
    for each, folder in ((named, base), (Path(os.path.realpath(path)), Path(os.path.realpath(base)))):
        if each.is_relative_to(folder) and each != folder:
            yield PurePosixPath(each.relative_to(folder).as_posix())


def _fits(pattern: str, parts: tuple[str, ...]) -> bool:
    """Whether a gitignore pattern means this path or a folder it is in."""
    segments = [part for part in pattern.split("/") if part not in {"", "."}]
    if not segments:
        return False
    if "/" not in pattern.rstrip("/"):
        segments.insert(0, "**")
    # A folder that is meant stands for everything below it; with a final slash only a folder is meant.
    segments.extend(["**", "*"] if pattern.endswith("/") else ["**"])
    reached = {0}
    for segment in segments:
        if segment == "**":
            reached = set(range(min(reached), len(parts) + 1))
        else:
            compiled = re.compile(fnmatch.translate(segment))
            reached = {place + 1 for place in reached if place < len(parts) and compiled.match(parts[place])}
        if not reached:
            return False
    return len(parts) in reached
