"""Decide whether a Bash command line only reads: by parsing it, never by substrings.

What cannot be parsed is not read-only. The environment, the programs on PATH and the configuration of git are
trusted here.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nacre.tools.shell.arguments import (
    AllowedOptions,
    check_bracket,
    check_command,
    check_date_operands,
    check_env,
    check_find,
    check_git,
    check_jq,
    check_printf,
    check_sed,
    check_test,
    check_xxd,
    names,
    sort_arguments,
)
from nacre.tools.shell.parser import NotParsedError, Redirection, ShellWord, SimpleCommand, parse

__all__ = [
    "EXTRACTION",
    "Allowed",
    "CommandVerdict",
    "ShellWord",
    "SimpleCommand",
    "explain",
    "objection",
    "programs",
]

HARMLESS = names(
    # No argument makes one of these write, so their arguments may even be expansions.
    """
    : b2sum basename cat cd cksum cmp column comm cut df dirname du echo egrep expand expr factor
    false fgrep fmt fold free grep groups head hexdump id join ls md5sum nl nproc numfmt od paste
    printenv ps pwd readlink realpath rev seq sha1sum sha224sum sha256sum sha384sum sha512sum shasum
    sleep stat strings sum tac tail tr true tsort type uname unexpand uptime users wc which who
    whoami
    """
)

BUILTIN_ONLY = frozenset({":", "cd", "type", "command"})
"""Builtins of the shell: with a path, the name is any file."""

SYSTEM_DIRECTORIES = ("/bin/", "/usr/bin/")
"""Directories whose programs are trusted by name."""


RESTRICTED: dict[str, AllowedOptions] = {
    "base64": AllowedOptions(flags="d", valued="w", long=names("decode"), long_valued=names("wrap")),
    "date": AllowedOptions(  # -s and a bare operand set the clock
        flags="Ru",
        valued="dr",
        attached="I",
        long=names("utc universal rfc-email iso-8601 rfc-3339"),
        long_valued=names("date reference"),
    ),
    "diff": AllowedOptions(  # -l runs pr
        flags="abBcdeEiNnpqrsTtuwyZ",
        valued="CFIUWXx",
        attached="0123456789",
        long=names(
            """
            brief text ignore-all-space ignore-blank-lines ignore-case ignore-space-change
            new-file recursive report-identical-files side-by-side suppress-common-lines unified
            context color minimal strip-trailing-cr ignore-trailing-space left-column
            no-dereference
            """
        ),
        long_valued=names("exclude width label ignore-matching-lines"),
    ),
    "file": AllowedOptions(  # -C writes a database, -z runs unpackers, -p sets the time of access
        flags="0bEhikLNrv",
        valued="F",
        long=names(
            """
            brief mime mime-type mime-encoding dereference no-dereference keep-going raw no-pad
            extension
            """
        ),
        long_valued=names("separator"),
    ),
    "hostname": AllowedOptions(  # an operand sets the name
        flags="AdfiIsy",
        long=names("fqdn long short domain ip-address all-ip-addresses all-fqdns"),
        max_operands=0,
    ),
    "rg": AllowedOptions(  # --pre and --hostname-bin run a program, -z runs unpackers
        flags="0abcFHhIiLlNnopqSsUuvwx.P",
        valued="ABCEefgjMmrTtd",
        long=names(
            """
            no-heading heading hidden no-ignore no-ignore-vcs files files-with-matches
            files-without-match fixed-strings ignore-case smart-case case-sensitive line-number
            no-line-number with-filename no-filename word-regexp line-regexp count count-matches
            only-matching multiline multiline-dotall invert-match json vimgrep stats trim null
            text binary pcre2 follow quiet column type-list debug no-messages pretty no-config
            unrestricted passthru sort-files one-file-system crlf glob-case-insensitive
            """
        ),
        long_valued=names(
            """
            after-context before-context context regexp file glob iglob max-count max-depth
            max-filesize max-columns type type-not color colors sort sortr threads replace
            encoding path-separator engine type-add context-separator
            """
        ),
    ),
    "sort": AllowedOptions(  # -o writes, -T places temporary files, --compress-program runs a program
        flags="bCcdfghiMmnRrsuVz",
        valued="kSt",
        long=names(
            """
            ignore-leading-blanks dictionary-order ignore-case general-numeric-sort
            ignore-nonprinting month-sort human-numeric-sort numeric-sort random-sort reverse
            sort version-sort check merge stable unique zero-terminated debug
            """
        ),
        long_valued=names("key field-separator buffer-size parallel"),
    ),
    "tree": AllowedOptions(  # -o writes, -R writes an index into each directory
        flags="aACdDfFghilnNpqQrstuUvxJX",
        separate="ILP",
        long=names(
            """
            dirsfirst filesfirst noreport prune du si inodes device gitignore matchdirs
            ignore-case metafirst nolinks fflinks
            """
        ),
        long_valued=names("sort timefmt filelimit charset"),
    ),
    "uniq": AllowedOptions(  # a second operand is written to
        flags="cDdiuz",
        valued="fsw",
        long=names("count repeated all-repeated unique ignore-case group zero-terminated"),
        long_valued=names("skip-fields skip-chars check-chars"),
        max_operands=1,
    ),
    "w": AllowedOptions(flags="fhiosu", max_operands=0),
}


MAX_REASON_CHARS = 120
"""A reason is one line; it quotes arguments, which may be long."""

_LANGUAGES: Mapping[str, Callable[[Sequence[ShellWord]], str]] = {
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
    """The programs and shell features that a command line may use."""

    programs: frozenset[str]
    redirections: bool = True
    """Harmless ones: from a file, to /dev/null, between output and errors."""
    variables: bool = True
    """Parameters such as `$HOME`."""


READ_ONLY = Allowed(programs=HARMLESS | frozenset(RESTRICTED) | frozenset(_LANGUAGES))
"""Everything that can be checked."""
EXTRACTION = Allowed(
    programs=names("ls find grep cat stat wc head tail"), redirections=False, variables=False
)
"""The commands of a fork that writes memories (E5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandVerdict:
    """Whether a command line only reads."""

    read_only: bool
    reason: str = ""
    """The first part that is not provably read-only; empty if there is none."""


def explain(command: str, *, allowed: Allowed = READ_ONLY) -> CommandVerdict:
    """Return whether the command line only reads, and if not, the reason."""
    try:
        script = parse(command)
    except NotParsedError as error:
        reason = str(error)
    else:
        reason = "" if script.commands else "no command"
        for part in script.commands:
            reason = reason or objection(part, allowed)
        if script.has_background:
            reason = reason or "a process is left in the background"
    line = " ".join(reason.split())
    is_long = len(line) > MAX_REASON_CHARS
    return CommandVerdict(
        read_only=not reason, reason=f"{line[: MAX_REASON_CHARS - 1]}…" if is_long else line
    )


def programs(command: str) -> tuple[SimpleCommand, ...] | None:
    """Return the simple commands of a command line; None if it cannot be parsed completely.

    A substitution, a loop or a function gives None: what it runs is not among the written words.
    """
    try:
        return parse(command).commands
    except NotParsedError:
        return None


def objection(part: SimpleCommand, allowed: Allowed = READ_ONLY) -> str:
    """Return what is not provably read-only in one simple command; empty if nothing."""
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


def _object_to_redirection(redirection: Redirection) -> str:
    target = redirection.target
    match redirection.operator:
        case "<<" | "<<-" | "<<<":
            return ""
        case "<":
            # Bash opens a network connection for such a name.
            connects = posixpath.normpath(target.text).startswith(
                ("/dev/tcp", "/dev/udp", "//dev/tcp", "//dev/udp")
            )
            is_safe = target.is_literal and not connects
        case "<&":
            is_safe = target.is_literal and target.text == "0"
        case ">&" if target.is_literal and target.text in ("1", "2"):
            # Other descriptors may have been opened on a file; a closed one is reused by the next file.
            return ""
        case operator:
            is_nowhere = operator != "<>" and target.is_literal and target.text == "/dev/null"
            return "" if is_nowhere else f"writes to a file: {redirection}"
    return "" if is_safe else f"reads from an unknown source: {redirection}"


def _object_to_program(words: Sequence[ShellWord], allowed: Allowed) -> str:
    command = words[0]
    arguments = words[1:]
    if not command.is_literal:
        return f"a program whose name is not written out: {command.text}"
    name = command.text
    for directory in SYSTEM_DIRECTORIES:
        plain = name.removeprefix(directory)
        if plain != name and plain not in BUILTIN_ONLY:
            name = plain
            break
    if name not in allowed.programs:
        return f"{command.text} may change something"
    if check := _LANGUAGES.get(name):
        problem = check(arguments)
    elif options := RESTRICTED.get(name):
        given = sort_arguments(arguments, options)
        problem = given.refused or (check_date_operands(given.operands) if name == "date" else "")
    else:
        problem = "" if name in HARMLESS else "not judged"
    return f"{name}: {problem}" if problem else ""
