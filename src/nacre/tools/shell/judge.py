"""Says whether a command line only reads, and if not, why."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nacre.tools.shell.commands import NotParsedError, Redirection, SimpleCommand, Word
from nacre.tools.shell.git import check_git
from nacre.tools.shell.options import Options, names, sort_out
from nacre.tools.shell.parser import parse
from nacre.tools.shell.special import (
    check_bracket,
    check_command,
    check_date_operands,
    check_env,
    check_find,
    check_jq,
    check_printf,
    check_sed,
    check_test,
    check_xxd,
)
from nacre.tools.shell.table import BUILTIN_ONLY, HARMLESS, RESTRICTED, SYSTEM_DIRECTORIES

MAX_REASON_CHARS = 120
"""A reason is one line of a terminal; it quotes arguments, which may be long."""

_LANGUAGES: Mapping[str, Callable[[Sequence[Word]], str]] = {
    "[": check_bracket,
    "command": check_command,
    "env": check_env,
    "find": check_find,
    "git": check_git,
    "jq": check_jq,
    "printf": check_printf,
    "sed": check_sed,
    "test": check_test,
    "xxd": check_xxd,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """Which programs a command line may use, and what of the shell."""

    programs: frozenset[str]
    redirections: bool = True
    """Harmless ones: from a file, to /dev/null, between output and errors."""
    variables: bool = True
    """Parameters such as `$HOME`."""


READ_ONLY = Allowed(programs=HARMLESS | frozenset(RESTRICTED) | frozenset(_LANGUAGES))
"""Everything that can be judged."""
EXTRACTION = Allowed(
    programs=names("ls find grep cat stat wc head tail"), redirections=False, variables=False
)
"""What a fork that writes memories may look with (E5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a command line only reads."""

    read_only: bool
    reason: str = ""
    """Names the first thing that is not provably read-only; empty if there is none."""
    programs: tuple[str, ...] = ()
    """The names of the programs, as written; empty if the line could not be taken apart."""


def is_read_only(command: str, *, allowed: Allowed = READ_ONLY) -> bool:
    """Whether it is certain that the command line changes nothing."""
    return explain(command, allowed=allowed).read_only


def explain(command: str, *, allowed: Allowed = READ_ONLY) -> Verdict:
    """Whether the command line only reads, and if not, what speaks against it."""
    try:
        script = parse(command)
    except NotParsedError as error:
        return Verdict(read_only=False, reason=_shorten(str(error)))
    written = tuple(part.argv[0] for part in script.commands if part.words)
    reason = "" if script.commands else "no command"
    for part in script.commands:
        reason = reason or objection(part, allowed)
    if script.has_background:
        reason = reason or "a process is left in the background"
    return Verdict(read_only=not reason, reason=_shorten(reason), programs=written)


def programs(command: str) -> tuple[SimpleCommand, ...] | None:
    """The simple commands of a command line; None if something in it cannot be taken apart.

    A substitution, a loop or a function gives None: what it runs is not among the words that are written.
    """
    try:
        return parse(command).commands
    except NotParsedError:
        return None


def objection(part: SimpleCommand, allowed: Allowed = READ_ONLY) -> str:
    """What is not provably read-only in one simple command; empty if nothing is."""
    if part.assignments:
        return f"sets a variable: {part.assignments[0]}"
    for redirection in part.redirections:
        if not allowed.redirections:
            return f"a redirection: {redirection}"
        if problem := _object_to_redirection(redirection):
            return problem
    targets = [redirection.target for redirection in part.redirections]
    if not allowed.variables and any(word.has_variable for word in (*part.words, *targets)):
        return "a variable"
    return _object_to_program(part.words, allowed) if part.words else ""


def _shorten(reason: str) -> str:
    line = " ".join(reason.split())
    return line if len(line) <= MAX_REASON_CHARS else line[: MAX_REASON_CHARS - 1] + "…"


def _object_to_redirection(redirection: Redirection) -> str:
    target = redirection.target
    match redirection.operator:
        case "<<" | "<<-" | "<<<":
            return ""
        case "<":
            if target.is_literal and not _is_network(target.text):
                return ""
            return f"reads from what cannot be told: {redirection}"
        case ">&" if target.is_literal and target.text in ("1", "2"):
            # Other descriptors were opened by somebody else, and may lead to a file; a closed one is
            # taken by the next file that is opened.
            return ""
        case "<&" if target.is_literal and target.text == "0":
            return ""
        case "<&":
            return f"reads from what cannot be told: {redirection}"
        case "<>":
            return f"writes to a file: {redirection}"
        case _:
            is_nowhere = target.is_literal and target.text == "/dev/null"
            return "" if is_nowhere else f"writes to a file: {redirection}"


def _is_network(path: str) -> bool:
    """Bash opens a connection for these names, which are no files."""
    return posixpath.normpath(path).startswith(("/dev/tcp", "/dev/udp", "//dev/tcp", "//dev/udp"))


def _object_to_program(words: Sequence[Word], allowed: Allowed) -> str:
    command, arguments = words[0], words[1:]
    if not command.is_literal:
        return f"a program whose name is not written out: {command.text}"
    name = command.text
    for directory in SYSTEM_DIRECTORIES:
        plain = name.removeprefix(directory)
        if plain != name and plain not in BUILTIN_ONLY:
            name = plain
            break
    if name not in allowed.programs:
        return f"unknown program: {command.text}"
    problem = _object_to_arguments(name, arguments)
    return f"{name}: {problem}" if problem else ""


def _object_to_arguments(name: str, arguments: Sequence[Word]) -> str:
    if check := _LANGUAGES.get(name):
        return check(arguments)
    if options := RESTRICTED.get(name):
        return _object_to_options(name, arguments, options)
    return "" if name in HARMLESS else "not judged"


def _object_to_options(name: str, arguments: Sequence[Word], options: Options) -> str:
    given = sort_out(arguments, options)
    return given.refused or (check_date_operands(given.operands) if name == "date" else "")
