"""The syntax of instructions files: includes, comments, and the globs of rule files (M23).

Pure functions on text. Every scan is linear, because a repository may contain a file made to be slow.
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
"""Includes of one file; each costs a file system access."""

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
"""Suffixes of files that may be included; a name without a suffix may be included as well."""

_LEAD = r"^[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?"
_OPENER = re.compile(
    rf"(?P<fence>{_LEAD}(?P<bar>`{{3,}}(?=[^`\n]*$)|~{{3,}}).*$)|(?P<ticks>`+)|(?P<comment><!--)",
    re.MULTILINE,
)
_BREAK = re.compile(rf"^[ \t]*$|{_LEAD}(?:`{{3,}}[^`\n]*$|~{{3,}})|^[ \t]*<!--", re.MULTILINE)
"""The latest end of a paragraph, and with it of every code span."""
_NAME = re.compile(r"(?<!\S)@((?:\\ |\S)+)")
_REST_OF_LINE = re.compile(r"[ \t]*(?:\n|\Z)")
_TRAILING = ".,;:!?)]}>\"'*_"
"""Punctuation after a path that is not part of it."""


@dataclass(frozen=True, slots=True)
class _Piece:
    kind: Literal["text", "code", "comment", "block comment"]
    start: int
    end: int


def includes_in(text: str) -> tuple[str, ...]:
    """Return the paths of `@path` outside of code and comments, each once, in order."""
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
    """Return a path as written, and without trailing punctuation."""
    bare = name.rstrip(_TRAILING)
    return (name, bare) if bare and bare != name else (name,)


def without_comments(text: str) -> str:
    """Return the text without HTML comments at the start of a line; those in code or never closed stay."""
    kept: list[str] = []
    start = 0
    for piece in _pieces(text):
        if piece.kind == "block comment":
            kept.append(text[start : piece.start])
            start = piece.end
    return "".join([*kept, text[start:]])


def is_text_name(path: PurePath) -> bool:
    """Return whether a file may be included, by its suffix."""
    return path.suffix == "" or path.suffix.lower() in TEXT_SUFFIXES


def _pieces(text: str) -> Iterator[_Piece]:
    """Yield the text as pieces of prose, code and comments."""
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
    """Return a fenced block, up to the closing fence or the end of the text."""
    mark = opener["bar"][0]
    length = len(opener["bar"])
    closer = re.compile(rf"^[ \t>]*{re.escape(mark)}{{{length},}}[ \t]*$", re.MULTILINE)
    found = closer.search(text, opener.end())
    return _Piece("code", opener.start(), found.end() if found else len(text))


def _comment(text: str, begin: int, start: int, *, is_after_block: bool) -> _Piece | None:
    """Return a comment; at the start of a line it is a block comment, with the rest of the line if blank."""
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
    """The closing backticks of code spans, found once for the whole text."""

    def __init__(self, text: str) -> None:
        self._closers: dict[int, list[int]] = {}
        for run in re.finditer("`+", text):
            self._closers.setdefault(len(run[0]), []).append(run.start())
        self._breaks = [found.start() for found in _BREAK.finditer(text)]
        self._text = text

    def code(self, opener: re.Match[str]) -> _Piece | None:
        """Return the code span that these backticks open, if it is closed within the paragraph."""
        if opener.start() and self._text[opener.start() - 1] == "\\":
            return None
        length = len(opener["ticks"])
        starts = self._closers[length]
        following = bisect_right(starts, opener.start())
        if following == len(starts):
            return None
        paragraph_end = bisect_right(self._breaks, opener.end())
        if paragraph_end < len(self._breaks) and self._breaks[paragraph_end] < starts[following]:
            return None
        return _Piece("code", opener.start(), starts[following] + length)


MAX_HEAD_LINES = 200
"""A longer frontmatter is not one."""
MAX_PATTERNS = 1_000
"""Patterns of one rule with braces expanded; `{a,b}{a,b}…` doubles with every pair."""
MAX_PATTERN_CHARS = 1_000
"""A longer pattern cannot match a path."""

_PATHS = re.compile(r"paths[ \t]*:(.*)", re.IGNORECASE)
_ITEM = re.compile(r"[ \t]*-(?:[ \t]+(.*)|[ \t]*$)")
_BRACES = re.compile(r"\{([^{}]*)\}")
_REMARK = re.compile(r"(?:^|[ \t])#.*$")


@dataclass(frozen=True, slots=True)
class Globs:
    """The patterns of one rule, and the folder that they are relative to."""

    base: Path
    patterns: tuple[str, ...]

    def matches(self, path: Path) -> bool:
        """Return whether a file below the base matches; the last matching pattern decides."""
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
    """Return the globs in the frontmatter of a rule file, and the text after it; no globs means always."""
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
    """Return whether an absolute path matches globs on absolute paths."""
    return Globs(Path("/"), tuple(_written_out(patterns))).matches(path)


def _patterns(head: list[str]) -> list[str]:
    """Return the patterns under `paths:`: a YAML list in either form, or a string with commas.

    Not parsed as YAML: `*.py` and `{a,b}` mean something else there, and people write them unquoted.
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
    """Return a pattern without quotes or a trailing comment."""
    item = item.strip()
    for quote in "\"'":
        if item.startswith(quote) and (end := item.find(quote, 1)) > 0:
            return item[1:end].strip()
    # A quoted string with commas was split at them, so one quote may be left.
    return _REMARK.sub("", item).strip().strip("\"'").strip()


def _parts(joined: str) -> Iterator[str]:
    """Yield the parts of a text between commas, except those inside braces."""
    depth = start = 0
    for place, letter in enumerate(joined):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth <= 0:
            yield joined[start:place]
            start = place + 1
    yield joined[start:]


def _written_out(patterns: list[str] | tuple[str, ...]) -> Iterator[str]:
    """Yield the patterns with braces expanded, up to the limit."""
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
    """Yield the path relative to the base, as named and as resolved."""
    named = Path(os.path.abspath(path))  # noqa: PTH100  # Path.resolve would follow links
    for each, folder in ((named, base), (Path(os.path.realpath(path)), Path(os.path.realpath(base)))):
        if each.is_relative_to(folder) and each != folder:
            yield PurePosixPath(each.relative_to(folder).as_posix())


def _fits(pattern: str, parts: tuple[str, ...]) -> bool:
    """Return whether a gitignore pattern matches this path or a folder that contains it."""
    segments = [part for part in pattern.split("/") if part not in {"", "."}]
    if not segments:
        return False
    if "/" not in pattern.rstrip("/"):
        segments.insert(0, "**")
    # A matching folder includes everything below it; with a final slash only a folder matches.
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
