"""Find the files that a parsed command line may name, through `cd`, wildcards, options and links.

A path that cannot be determined is reported as unknown, never left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nacre.tools.files import resolve
from nacre.tools.patterns import translate
from nacre.tools.shell import ShellWord, SimpleCommand

MAX_PLACES = 8
"""Directories a line may be in after its `cd`s; a line with more is not followed."""
MAX_NAMES = 1_000
"""Names that a wildcard may match; with more, the user is asked instead."""
MAX_OPTION_CHARS = 256
"""A longer option is not searched for a path at its end."""

_WILD = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{[^{}]*\}")
_FOLLOWS = "follows symbolic links"
_LISTS = "takes file names from a file"
_INDIRECT: tuple[tuple[str, str, str], ...] = (
    ("grep egrep fgrep", r"-[^-]*R|--de", _FOLLOWS),
    ("rg", r"-[^-]*L|--follow", _FOLLOWS),
    ("find", r"-L|-follow", _FOLLOWS),
    ("ls du", r"-[^-]*L|--de", _FOLLOWS),
    ("tree", r"-[^-]*l", _FOLLOWS),
    ("wc du", r"--f", _LISTS),
    (
        "md5sum sha1sum sha224sum sha256sum sha384sum sha512sum shasum b2sum cksum",
        r"-[^-]*c|--c",
        _LISTS,
    ),
    ("strings", r"@", _LISTS),
)
"""Programs, a pattern for options that make them read files the line does not name, and the reason."""


@dataclass(frozen=True, slots=True)
class Named:
    """A word and a file or directory that it may name."""

    word: str
    path: Path | None
    """The real path; None if it is unknown."""
    why: str = ""
    """Why the path is unknown."""
    is_entered: bool = False
    """A command of the line may run in this directory."""


def named(parts: Iterable[SimpleCommand], cwd: Path) -> Iterator[Named]:
    """Yield everything that the words of a line may name, with the directories it works in."""
    # A `cd` may fail, or happen in a subshell: the line is in the old directory or in the new one.
    places = [cwd]
    yield Named(str(cwd), cwd, is_entered=True)
    for part in parts:
        is_cd = bool(part.words) and part.words[0].text == "cd"
        targets = [_entered(part.words[1:])] if is_cd else _entered_by_git(part)
        reached = list(places)
        for target in targets:
            found = [None] if target is None else [_real(one, target) for one in reached]
            yield from (Named(target or " ".join(part.argv), place, is_entered=True) for place in found)
            reached += [place for place in found if place is not None and place not in reached]
        if len(reached) > MAX_PLACES:
            yield Named(part.argv[0], None)
            return
        if is_cd:
            places = reached
        else:
            yield from _named_by(part, reached)


def _named_by(part: SimpleCommand, places: Sequence[Path]) -> Iterator[Named]:
    """Yield everything that the words of one command may name in one of these directories."""
    yield from _indirect(part)
    is_diff = _program(part) == "diff" and "--no-dereference" not in part.argv
    sources = [one.target for one in part.redirections if one.operator == "<"]
    for word in (*part.words[1:], *sources):
        for path in (path for place in places for path in _meant(word, place)):
            yield Named(word.text, path)
            if is_diff and path is not None and os.path.isdir(path):  # noqa: PTH112  # no error where it may not look
                yield Named(word.text, None, why=f"diff follows the symbolic links in {word.text}")


def _program(part: SimpleCommand) -> str:
    return part.words[0].text.rpartition("/")[2] if part.words else ""


def _entered_by_git(part: SimpleCommand) -> list[str | None]:
    """Return the directories of git's `-C` options, each relative to the one before."""
    targets: list[str | None] = []
    words = iter(part.argv[1:] if _program(part) == "git" else ())
    for word in words:
        if not word.startswith("-"):
            break
        if word == "-C":
            targets.append(next(words, None))
    return targets


def _entered(words: Sequence[ShellWord]) -> str | None:
    """Return the target of a `cd`; None for home, for `-` and for a word that is not literal.

    Bash runs a line with `set -P`. With `cd -L`, `..` would mean another directory than it does here.
    """
    targets = [word for word in words if word.text not in {"-P", "--"}]
    is_plain = len(targets) == 1 and targets[0].is_literal and not targets[0].text.startswith("-")
    return targets[0].text if is_plain else None


def _indirect(part: SimpleCommand) -> Iterator[Named]:
    """Yield options that make a program read files that the line does not name."""
    program = _program(part)
    for programs, beginning, why in _INDIRECT:
        for option in part.argv[1:] if program in programs.split() else ():
            if re.match(beginning, option):
                yield Named(option, None, why=f"{program} {option} {why}")


def _meant(word: ShellWord, place: Path) -> Iterator[Path | None]:
    """Yield what one word may name in one directory; None if it is unknown."""
    # A variable may hold any path, and so may an escape that was not parsed.
    if word.has_variable or (not word.is_literal and "\\" in word.text):
        yield None
        return
    for text in _readings(word.text):
        if text is None:
            yield None
        elif word.is_literal or not _WILD.search(text):
            is_unknown_user = text.startswith("~") and os.path.expanduser(text) == text  # noqa: PTH111
            yield None if is_unknown_user and not word.is_literal else _real(place, text)
        else:
            yield from _matching(text, place)


def _readings(text: str) -> Iterator[str | None]:
    """Yield the paths that an argument may hold: all of it, or the text behind an option or an `@`."""
    if text == "/dev/null":
        return
    if text.startswith("--"):
        yield from [text.partition("=")[2]] if "=" in text else []
    elif text.startswith("-"):
        if len(text) > MAX_OPTION_CHARS:
            yield None
        # A value may follow its letter at once, and letters may be bundled: any end may be a path. A lone
        # slash is a separator (`cut -d/`): no option of a reading program takes a directory that way.
        yield from (text[at:] for at in range(2, len(text[:MAX_OPTION_CHARS])) if text[at:] != "/")
    else:
        yield text
        if text.startswith("@"):
            yield text[1:]


def _real(place: Path, text: str) -> Path | None:
    """Return the real path of a text in a directory; None if it cannot be resolved."""
    try:
        return resolve(place / os.path.expanduser(text))  # noqa: PTH111  # no error on an unknown ~user
    except (OSError, ValueError):
        return None


def _matching(pattern: str, place: Path) -> Iterator[Path | None]:
    """Yield the real paths that a wildcard pattern matches now; rather too many than too few."""
    segments = pattern.split("/")
    if pattern.startswith("~") or not _has_plain_braces(segments):
        yield None
        return
    found = [Path("/")] if pattern.startswith("/") else [place]
    for segment in segments:
        if segment:
            found = [path for one in found for path in _step(one, segment)]
        if len(found) > MAX_NAMES:
            yield None
            return
    # The shell passes on a pattern that matches nothing unchanged.
    yield _real(place, pattern)
    yield from (_real(place, os.fspath(path)) for path in found)


def _has_plain_braces(segments: Sequence[str]) -> bool:
    """Return whether brace alternatives stay within a name: no slash, no `..`, no `~`, no empty root."""
    for place, segment in enumerate(segments):
        if "{" not in segment and "}" not in segment:
            continue
        outside = _BRACES.sub("", segment)
        makes_root = place == 0 and len(segments) > 1 and not outside
        if "{" in outside or "}" in outside or segment.count(".") > 1 or "~" in segment or makes_root:
            return False
    return True


def _step(directory: Path, segment: str) -> list[Path]:
    if not _WILD.search(segment):
        return [directory / segment]
    try:
        names = os.listdir(directory)  # noqa: PTH208  # names are what is wanted
    except OSError:
        return []
    # Bash treats character sets and braces without a comma in its own way: there any name may match.
    is_known = "[" not in segment and all("," in braces for braces in _BRACES.findall(segment))
    matched = re.compile(translate(segment) if is_known else ".*", re.DOTALL)
    shows_hidden = segment.startswith(".") or "{" in segment
    matching = [
        directory / name
        for name in names
        if (shows_hidden or not name.startswith(".")) and matched.fullmatch(name)
    ]
    return [*matching, directory / ".."] if segment.startswith(".") else matching
