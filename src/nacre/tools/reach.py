"""Find the files that a parsed command line may name, through `cd`, wildcards, options and links.

A path that cannot be determined is reported as unknown, never left out.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nacre.tools.files import resolve
from nacre.tools.patterns import matches
from nacre.tools.shell import ShellWord, SimpleCommand
from nacre.tools.shell.arguments import names

MAX_PLACES = 8
"""Directories a line may be in after its `cd`s; a line with more is not followed."""
MAX_NAMES = 1_000
"""Names that a wildcard may match; with more, the user is asked instead."""
MAX_FILES_BELOW = 5_000
"""Files of a searched directory that are compared with rules; with more, the user is asked instead."""
MAX_OPTION_CHARS = 256
"""A longer option is not searched for a path at its end."""

_WILD = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{[^{}]*\}")
_PLAIN_SEARCH = re.compile(r"-[EFGHIPRchilnorsvwx]+|--recursive|--(?:in|ex)clude(?:-dir)?=.*")
"""Options of grep that bring no pattern and take no other word."""
_FOLLOWS = "follows symbolic links"
_LISTS = "takes file names from a file"
_INDIRECT: tuple[tuple[str, str, str], ...] = (
    ("grep egrep fgrep", r"-[^-]*R|--de", _FOLLOWS),
    ("rg", r"-[^-]*L|--follow", _FOLLOWS),
    ("find", r"-L|-follow|-xtype|.*%[^%A-Za-z]*Y", _FOLLOWS),
    ("ls du", r"-[^-]*L|--de", _FOLLOWS),
    ("tree", r"-[^-]*l", _FOLLOWS),
    ("wc du", r"--f", _LISTS),
    ("md5sum sha1sum sha224sum sha256sum sha384sum sha512sum shasum b2sum cksum", r"-[^-]*c|--c", _LISTS),
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
    is_searched: bool = False
    """A command reads the files below this directory, which its words do not name."""


def named(parts: Iterable[SimpleCommand], cwd: Path) -> Iterator[Named]:
    """Yield everything that the words of a line may name, with the directories it works in."""
    # A `cd` may fail, or happen in a subshell: the line is in the old directory or in the new one.
    places = [cwd]
    yield Named(str(cwd), cwd, is_entered=True)
    for part in parts:
        is_cd = bool(part.words) and part.words[0].text == "cd"
        targets = [_cd_target(part.words[1:])] if is_cd else _git_directories(part)
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
    program = _program(part)
    for programs, beginning, why in _INDIRECT:
        for option in part.argv[1:] if program in programs.split() else ():
            if re.match(beginning, option):
                yield Named(option, None, why=f"{program} {option} {why}")
    is_diff = program == "diff" and "--no-dereference" not in part.argv
    sources = [one.target for one in part.redirections if one.operator == "<"]
    searched, is_here = _searched_words(part) if _searches(part) else ([], False)
    yield from (Named(str(place), place, is_searched=True) for place in places if is_here)
    for word in (*part.words[1:], *sources):
        for path in (path for place in places for path in _meant(word, place)):
            yield Named(word.text, path, is_searched=word in searched)
            if is_diff and path is not None and os.path.isdir(path):  # noqa: PTH112  # no error where it may not look
                yield Named(word.text, None, why=f"diff follows the symbolic links in {word.text}")


def _searches(part: SimpleCommand) -> bool:
    """Return whether a command reads the files below a directory."""
    program = _program(part)
    is_recursive = any(re.match(r"-[^-]*[rR]|--r|--de", word) for word in part.argv[1:])
    return program == "rg" or (program in {"grep", "egrep", "fgrep"} and is_recursive)


def _searched_words(part: SimpleCommand) -> tuple[list[ShellWord], bool]:
    """Return the words that may name what such a command searches, and whether it may be where it runs."""
    options = [word.text for word in part.words[1:] if word.text.startswith("-")]
    words = [word for word in part.words[1:] if not word.text.startswith("-")]
    # Another option may bring the pattern, or take the next word as its value.
    is_plain = all(_PLAIN_SEARCH.fullmatch(option) for option in options)
    operands = words[1:] if is_plain else words
    return operands, not (is_plain and operands)


def below(directory: Path) -> Iterator[Path]:
    """Yield the files below a directory, without following links; `OSError` if there are too many."""
    count = 0
    for folder, inner, found in os.walk(directory):
        if folder.endswith("/.git") and "objects" in inner:
            inner.remove("objects")  # compressed: a search finds nothing in them
        count += len(found)
        if count > MAX_FILES_BELOW:
            raise OSError(errno.E2BIG, "too many files below it to compare with the rules", str(directory))
        yield from (Path(folder, name) for name in found)


def _program(part: SimpleCommand) -> str:
    return part.words[0].text.rpartition("/")[2] if part.words else ""


def _git_directories(part: SimpleCommand) -> list[str | None]:
    """Return the directories of git's `-C` options, each relative to the one before."""
    targets: list[str | None] = []
    words = iter(part.argv[1:] if _program(part) == "git" else ())
    for word in words:
        if not word.startswith("-"):
            break
        if word == "-C":
            targets.append(next(words, None))
    return targets


def revision_paths(parts: Iterable[SimpleCommand], cwd: Path) -> Iterator[Path]:
    """Yield the files that `REVISION:path`, `:0:path` and `:(magic)path` may name in a work tree around."""
    for word in (word for part in parts if _program(part) == "git" for word in part.argv[1:]):
        tails = {word[at + 1 :] for at, sign in enumerate(word) if sign in ":)!"}
        # In `A:path..B:path` the first path ends before the dots.
        tails |= {tail.partition("..")[0] for tail in tails}
        for tail in tails - {""}:
            yield from (Path(os.path.normpath(place / tail.lstrip("/"))) for place in (cwd, *cwd.parents))


_SUMMARIES = names(
    "--stat --shortstat --numstat --name-only --name-status --summary --dirstat --raw --quiet --no-patch -s"
)
_WITHOUT_CONTENT = _SUMMARIES | names(
    """
    --oneline --graph --decorate --no-decorate --all --branches --tags --remotes --format --pretty --date
    --since --until --after --before --author --committer --grep --merges --no-merges --first-parent --reverse
    --abbrev --abbrev-commit --no-abbrev-commit --follow --max-count --skip --color --no-color --topo-order
    --date-order --left-right --cherry-pick --cherry-mark --full-history --simplify-by-decoration
    --ancestry-path --boundary --parents --children --diff-filter --find-renames --no-renames --cached
    --staged --relative-date --no-ext-diff --no-pager --merge-base --exit-code -i -n -z -M -C -S -G -E -F
    """
)
"""Options of commands such as `git log` with which no content of a file is printed."""
_NAMES_ONLY = names(
    """
    blame branch check-attr check-ignore cherry config count-objects describe for-each-ref ls-files ls-tree
    merge-base name-rev remote rev-list rev-parse shortlog show-ref symbolic-ref tag version worktree
    """
)
"""Subcommands of git that print no content, or only that of a file they name."""
_WITH_CONTENT = names("diff show stash")
"""Subcommands that print content unless an option asks for a summary."""
_NUMBER = re.compile(r"-[nMC]?[0-9]+%?")
_HASH = re.compile(r"[0-9a-f]{4,64}")


def prints_unnamed_files(part: SimpleCommand, places: Sequence[Path]) -> bool:
    """Return whether a git command may print the content of tracked files that its words do not name."""
    words = list(part.argv[1:] if _program(part) == "git" else ())
    while words and words[0].startswith("-"):
        del words[: 2 if words[0] == "-C" else 1]
    command = words.pop(0) if words else ""
    options = [word.partition("=")[0] for word in words if word.startswith("-") and word != "--"]
    operands = [word for word in words if not word.startswith("-")]
    limits = words[words.index("--") + 1 :] if "--" in words else []
    if not command or (limits and all(_is_plain_file(place, word) for word in limits for place in places)):
        return False
    if command in _NAMES_ONLY:
        return any("raw" in word for word in words)
    if command == "status":
        return any(re.match("-[^-]*v|--v", option) for option in options)
    is_named = bool(operands) and all(":" in word for word in operands)
    if command in {"cat-file", "grep"}:
        is_fact = command == "cat-file" and bool(options) and set(options) <= {"-e", "-s", "-t"}
        return not is_fact and (command == "grep" or not is_named or any(map(_is_long, options)))
    if command == "show" and is_named:
        return any(map(_is_long, options))
    has_patch = any(option not in _WITHOUT_CONTENT and not _NUMBER.fullmatch(option) for option in options)
    is_object = command == "show" and any(map(_HASH.fullmatch, operands))
    shows = command in _WITH_CONTENT and operands[:1] != ["list"]
    return has_patch or (shows and (is_object or not _SUMMARIES.intersection(options)))


def prints_untracked_files(part: SimpleCommand) -> bool:
    """Return whether a git command may also print files that no commit and no index names."""
    return _program(part) == "git" and any(
        re.match("--(?:untr|no-in|no-exc|batch-a)", word) for word in part.argv[1:]
    )


def _is_long(option: str) -> bool:
    return option.startswith("--")


def _is_plain_file(place: Path, word: str) -> bool:
    return not _WILD.search(word) and not word.startswith(":") and (place / word).is_file()


def _cd_target(words: Sequence[ShellWord]) -> str | None:
    """Return the target of a `cd`; None for home, for `-` and for a word that is not literal.

    Bash runs a line with `set -P`. With `cd -L`, `..` would mean another directory than it does here.
    """
    targets = [word for word in words if word.text not in {"-P", "--"}]
    is_plain = len(targets) == 1 and targets[0].is_literal and not targets[0].text.startswith("-")
    return targets[0].text if is_plain else None


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
    if pattern.startswith("~") or any(_has_odd_braces(segments, place) for place in range(len(segments))):
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


def _has_odd_braces(segments: Sequence[str], place: int) -> bool:
    """Return whether brace alternatives leave a name: by a slash, `..`, `~` or an empty root."""
    segment = segments[place]
    outside = _BRACES.sub("", segment)
    makes_root = place == 0 and len(segments) > 1 and not outside
    is_odd = "{" in outside or "}" in outside or segment.count(".") > 1 or "~" in segment or makes_root
    return is_odd and ("{" in segment or "}" in segment)


def _step(directory: Path, segment: str) -> list[Path]:
    if not _WILD.search(segment):
        return [directory / segment]
    try:
        names = os.listdir(directory)  # noqa: PTH208  # names are what is wanted
    except OSError:
        return []
    # Bash treats character sets and braces without a comma in its own way: there any name may match.
    is_known = "[" not in segment and all("," in braces for braces in _BRACES.findall(segment))
    shows_hidden = segment.startswith(".") or "{" in segment
    matching = [
        directory / name
        for name in names
        if (shows_hidden or not name.startswith(".")) and (not is_known or matches(segment, name))
    ]
    return [*matching, directory / ".."] if segment.startswith(".") else matching
