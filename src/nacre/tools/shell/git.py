"""The subcommands of git that only read, and the arguments each may have.

Only arguments are checked here; `nacre.tools.git_config` checks what the files of a repository make git do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from nacre.tools.shell.commands import ShellWord
from nacre.tools.shell.options import AllowedOptions, SortedArguments, names, sort_arguments
from nacre.tools.shell.special import UNSURE

_GLOBAL_FLAGS = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"})
_DENIED_LONG = (
    "--output",
    "--output-directory",
    "--ext-diff",
    "--textconv",
    "--open-files-in-pager",
    "--show-signature",
    "--filters",
    "--exec",
    "--upload-pack",
    "--paginate",
    "--help",
    "--edit",
    "--submodule",
    "--recurse-submodules",
    "--contents",
    "--ignore-revs-file",
)
"""Each writes a file, runs a program, enters submodules or prints another file; so do abbreviations.

Git resolves those files from the top of the work tree, not from the working directory.
"""
_RUNS_GPG = re.compile(
    r"%[-+ ]*G|%\(\*?signature|(?:^|=)-?(?:v(?:ersion)?:)?\*?signature(?::|$)"  # a format, a key for --sort
)


def check_git(arguments: Sequence[ShellWord]) -> str:
    """Return what is wrong with a git command; empty if it only reads."""
    rest = list(arguments)
    while rest and rest[0].is_literal and rest[0].text.startswith("-"):
        option = rest.pop(0).text
        if option == "--version":
            return ""
        if option == "-C" and rest and rest[0].is_tame and rest[0].is_single:
            rest.pop(0)
        elif option not in _GLOBAL_FLAGS:
            return option
    if not rest:
        return "no subcommand"
    name = rest[0]
    given = rest[1:]
    check = _SUBCOMMANDS.get(name.text)
    if check is None or not name.is_literal:
        return name.text
    problem = _check_every(given) or check(given)
    if problem == UNSURE:
        return f"{name.text}: {problem}"
    return f"{name.text} {problem}" if problem else ""


def _check_every(arguments: Sequence[ShellWord]) -> str:
    """Check what no subcommand may have; also after `--`, which an option may take as its value."""
    for word in arguments:
        if not word.is_tame:
            return UNSURE
        name = word.text.partition("=")[0]
        if len(name) > len("--") and any(denied.startswith(name) for denied in _DENIED_LONG):
            return word.text
        if _RUNS_GPG.search(word.text):
            return word.text
    return ""


def _check_nothing(_: Sequence[ShellWord]) -> str:
    return ""


_ANCESTRY = re.compile(r"-[^-LCM]*S")
"""-S, alone or behind other letters; -L, -C and -M take the following text as their value."""


def _check_blame(arguments: Sequence[ShellWord]) -> str:
    """Refuse -S, which prints lines of a file relative to the top of the work tree."""
    return next((word.text for word in arguments if _ANCESTRY.match(word.text)), "")


def _check_grep(arguments: Sequence[ShellWord]) -> str:
    """Refuse -O, which opens a pager on the matches."""
    for word in arguments:
        if word.text.startswith("-") and not word.text.startswith("--") and "O" in word.text:
            return word.text
    return ""


_SELECTS = names("contains no-contains merged no-merged points-at sort")
_BRANCH = AllowedOptions(
    flags="alrvq",
    long=_SELECTS
    | names(
        """
            all remotes verbose list show-current format color no-color column no-column
            ignore-case abbrev
            """
    ),
)
_TAG = AllowedOptions(
    flags="li",
    attached="n",
    long=_SELECTS | names("list format color column no-column ignore-case"),
)


def _check_listing(allowed: AllowedOptions, *modes: str) -> Callable[[Sequence[ShellWord]], str]:
    """Return a check that allows names only with a listing option, where they are patterns."""

    def check(arguments: Sequence[ShellWord]) -> str:
        given = sort_arguments(arguments, allowed)
        if given.refused or (given.operands and not given.has(*modes)):
            return given.refused or given.operands[0].text
        return ""

    return check


_CONFIG_MODES = names("get get-all get-regexp get-urlmatch list")
_CONFIG = AllowedOptions(
    flags="lz",
    long=_CONFIG_MODES
    | names(
        """
            local worktree show-origin show-scope name-only null includes bool int
            path type
            """
    ),
)
_CONFIG_VERBS = names("list get set unset rename-section remove-section edit")


def _check_config(arguments: Sequence[ShellWord]) -> str:
    """Allow a mode that reads, or a single key: a second operand would be its new value.

    Only settings of the repository: those of the user may contain credentials.
    """
    given = sort_arguments(arguments, _CONFIG)
    if given.refused:
        return given.refused
    if not given.has("local", "worktree"):
        return "without --local"
    if given.operands and given.operands[0].text in _CONFIG_VERBS:
        return given.operands[0].text
    if given.has("l", *_CONFIG_MODES):
        return ""
    return "" if _is_one_key(given) else "without --get"


def _is_one_key(given: SortedArguments) -> bool:
    return len(given.operands) == 1 and given.operands[0].is_literal and "." in given.operands[0].text


def _check_first(*verbs: str, alone: bool) -> Callable[[Sequence[ShellWord]], str]:
    """Return a check for the first argument; with `alone`, none or a single option is allowed as well."""

    def check(arguments: Sequence[ShellWord]) -> str:
        if not arguments:
            return "" if alone else "without arguments"
        first = arguments[0].text
        if first in verbs or (alone and first.startswith("-") and len(arguments) == 1):
            return ""
        return first

    return check


def _check_symbolic_ref(arguments: Sequence[ShellWord]) -> str:
    return sort_arguments(
        arguments, AllowedOptions(flags="q", long=frozenset({"short", "quiet"}), max_operands=1)
    ).refused


_SUBCOMMANDS: Mapping[str, Callable[[Sequence[ShellWord]], str]] = {
    **dict.fromkeys(
        names(
            """
            cat-file check-attr check-ignore cherry count-objects describe diff diff-files
            diff-index diff-tree for-each-ref log ls-files ls-tree merge-base name-rev rev-list
            rev-parse shortlog show show-ref status version whatchanged
            """
        ),
        _check_nothing,
    ),
    "blame": _check_blame,
    "branch": _check_listing(_BRANCH, "list", "contains", "no-contains", "merged", "no-merged", "points-at"),
    "config": _check_config,
    "grep": _check_grep,
    "reflog": _check_first("show", alone=True),
    "remote": _check_first("get-url", alone=True),
    "stash": _check_first("list", "show", alone=False),
    "symbolic-ref": _check_symbolic_ref,
    "tag": _check_listing(_TAG, "l", "list"),
    "worktree": _check_first("list", alone=False),
}
