"""Which files the words of a command line may name, followed through `cd`, wildcards, options and links.

Only for lines that were taken apart. What cannot be told is said to be unknown, never left out.
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
"""Directories a line may be in after its `cd`s; one that moves about more is not followed."""
MAX_NAMES = 1_000
"""Names a wildcard may stand for; more would take longer to look at than a person to answer."""
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
"""Programs, how an option begins that makes them read files that the line does not name, and why."""


@dataclass(frozen=True, slots=True)
class Named:
    """A word, and a file or directory it may mean."""

    word: str
    path: Path | None
    """The real place; None when nobody can say."""
    why: str = ""
    """Why the place is not known."""
    is_entered: bool = False
    """A command of the line may run in this directory."""


def named(parts: Iterable[SimpleCommand], cwd: Path) -> Iterator[Named]:
    """Everything the words of a line may name, the directories it works in included."""
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
    """Everything that the words of one command may name, which runs in one of these directories."""
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
    """The directories that git is told to go to with `-C`, each from the one before."""
    targets: list[str | None] = []
    words = iter(part.argv[1:] if _program(part) == "git" else ())
    for word in words:
        if not word.startswith("-"):
            break
        if word == "-C":
            targets.append(next(words, None))
    return targets


def _entered(words: Sequence[ShellWord]) -> str | None:
    """The directory a `cd` goes to; None for home, for the one before and for what is not written out.

    Bash runs a line with `set -P`. With `cd -L`, `..` would mean another directory than it does here.
    """
    targets = [word for word in words if word.text not in {"-P", "--"}]
    is_plain = len(targets) == 1 and targets[0].is_literal and not targets[0].text.startswith("-")
    return targets[0].text if is_plain else None


def _indirect(part: SimpleCommand) -> Iterator[Named]:
    """Options that make a program read files that the line does not name."""
    program = _program(part)
    for programs, beginning, why in _INDIRECT:
        for option in part.argv[1:] if program in programs.split() else ():
            if re.match(beginning, option):
                yield Named(option, None, why=f"{program} {option} {why}")


def _meant(word: ShellWord, place: Path) -> Iterator[Path | None]:
    """What one word may name in one directory; None when nobody can say."""
    # A variable may hold any path, and so may an escape that was not read.
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
    """The paths an argument may hold: all of it, or what stands behind an option or an `@`."""
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
    """The real place that a text means in a directory; None where that cannot be resolved."""
    try:
        return resolve(place / os.path.expanduser(text))  # noqa: PTH111  # no error on an unknown ~user
    except (OSError, ValueError):
        return None


def _matching(pattern: str, place: Path) -> Iterator[Path | None]:
    """The real places a pattern with wildcards stands for now; a few more rather than one too few."""
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
    # A pattern that matches nothing is handed on as it is written.
    yield _real(place, pattern)
    yield from (_real(place, os.fspath(path)) for path in found)


def _has_plain_braces(segments: Sequence[str]) -> bool:
    """Whether alternatives stay within a name: they hold no slash, and make no `..`, `~` or empty root."""
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
    # Bash reads sets of letters and braces without a comma in its own way: there any name may match.
    is_known = "[" not in segment and all("," in braces for braces in _BRACES.findall(segment))
    matched = re.compile(translate(segment) if is_known else ".*", re.DOTALL)
    shows_hidden = segment.startswith(".") or "{" in segment
    matching = [
        directory / name
        for name in names
        if (shows_hidden or not name.startswith(".")) and matched.fullmatch(name)
    ]
    return [*matching, directory / ".."] if segment.startswith(".") else matching
