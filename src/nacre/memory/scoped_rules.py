"""Rule files that wait for a file to be touched: their head, and the globs in it (M23).

Globs match as in a gitignore file. Matching never takes more than pattern times path, because a repository
may bring patterns that were made to be slow.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

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
