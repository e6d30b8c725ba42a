"""Check the arguments of programs that may only read: their options, or the language that they are.

An option that is not listed is refused: abbreviations (`--outp`), clusters (`-uo`) and options of other
versions of the program therefore need no case of their own. For git only arguments are checked here;
`nacre.tools.git_config` checks what the files of a repository make git do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from nacre.tools.shell.parser import ShellWord


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedOptions:
    """The options that a program may have, and how many other arguments."""

    flags: str = ""
    """Short options without a value."""
    valued: str = ""
    """Short options with a value, attached or as the next argument."""
    separate: str = ""
    """Short options whose value is always the next argument; nothing may follow them in a cluster."""
    attached: str = ""
    """Short options whose value, if any, is the rest of the same argument."""
    long: frozenset[str] = field(default_factory=frozenset)
    """Long options without a value or with `=value`."""
    long_valued: frozenset[str] = field(default_factory=frozenset)
    """Long options with a value, after `=` or as the next argument."""
    max_operands: int | None = None
    """How many other arguments are allowed; with a limit, options must precede them."""


def names(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedArguments:
    """Arguments sorted into options and the rest."""

    options: tuple[tuple[str, ShellWord | None], ...] = ()
    """Each with the word of its value."""
    operands: tuple[ShellWord, ...] = ()
    refused: str = ""
    """The first argument that is not allowed; empty if there is none."""

    def has(self, *names: str) -> bool:
        """Return whether one of these options is present."""
        return any(name in names for name, _ in self.options)


def sort_arguments(arguments: Sequence[ShellWord], allowed: AllowedOptions) -> SortedArguments:
    """Parse the arguments like the program, up to the first one that is not allowed."""
    options: list[tuple[str, ShellWord | None]] = []
    operands: list[ShellWord] = []
    rest = iter(arguments)
    for word in rest:
        if not word.is_tame:
            return SortedArguments(refused=word.text)
        if word.text == "--":
            ended = list(rest)
            operands.extend(ended)
            # Had an option before it taken the `--` as its value, these would be options.
            if strange := [late.text for late in ended if not late.is_tame or _looks_like_option(late)]:
                return SortedArguments(refused=strange[0])
            break
        if not _looks_like_option(word):
            operands.append(word)
            continue
        found = _read_option(word, rest, allowed)
        if found is None or (operands and allowed.max_operands is not None):
            return SortedArguments(refused=word.text)
        options.extend(found)
    if allowed.max_operands is not None:
        for index, word in enumerate(operands):
            if index >= allowed.max_operands or not word.is_single:
                return SortedArguments(refused=word.text)
    return SortedArguments(options=tuple(options), operands=tuple(operands))


def _looks_like_option(word: ShellWord) -> bool:
    return word.text.startswith("-") and word.text != "-"


def _read_option(
    word: ShellWord, rest: Iterator[ShellWord], allowed: AllowedOptions
) -> list[tuple[str, ShellWord | None]] | None:
    """Return the options in one argument; None if one of them is not allowed."""
    if word.text.startswith("--"):
        name, sign, value = word.text[2:].partition("=")
        if name in allowed.long or (sign and name in allowed.long_valued):
            return [(name, ShellWord(text=value) if sign else None)]
        return _with_next(name, rest) if name in allowed.long_valued else None
    found: list[tuple[str, ShellWord | None]] = []
    for index, letter in enumerate(word.text[1:], start=2):
        if letter in allowed.flags:
            found.append((letter, None))
        elif letter in allowed.attached or (letter in allowed.valued and word.text[index:]):
            return [*found, (letter, ShellWord(text=word.text[index:]))]
        elif letter in allowed.valued or (letter in allowed.separate and not word.text[index:]):
            last = _with_next(letter, rest)
            return [*found, *last] if last else None
        else:
            return None
    return found


def _with_next(name: str, rest: Iterator[ShellWord]) -> list[tuple[str, ShellWord | None]] | None:
    value = next(rest, None)
    # A value that looks like an option may be one, for a version of the program that expects no value.
    if value is None or not (value.is_tame and value.is_single) or _looks_like_option(value):
        return None
    return [(name, value)]


UNSURE = "a variable or wildcard may expand to an option"

_FIND = names(
    # -exec, -execdir, -ok, -okdir, -delete, -fls, -fprint, -fprint0, -fprintf are what is missing.
    """
    -H -L -P -O0 -O1 -O2 -O3 -E -X -a -amin -and -anewer -atime -cmin -cnewer -ctime -d -daystart
    -depth -empty -executable -false -follow -fstype -gid -group -ignore_readdir_race -ilname -iname
    -inum -ipath -iregex -iwholename -links -lname -ls -maxdepth -mindepth -mmin -mount -mtime -name
    -newer -newerat -newercm -newerct -newermt -nogroup -noignore_readdir_race -noleaf -not -nouser
    -nowarn -o -or -path -perm -print -print0 -printf -prune -quit -readable -regex -regextype
    -samefile -size -true -type -uid -used -user -warn -wholename -writable -xdev -xtype
    """
)
_LESS_THAN = re.compile(r"-[0-9]+[a-zA-Z]?")
_MODE = re.compile(r"-[0-7ugoarwxstX+,=]+")


def check_find(arguments: Sequence[ShellWord]) -> str:
    """Allow only tests and actions that print."""
    previous = ""
    for word in arguments:
        if not word.is_tame:
            return UNSURE
        is_known = word.text in _FIND or _LESS_THAN.fullmatch(word.text)
        is_mode = previous == "-perm" and _MODE.fullmatch(word.text)
        if word.text.startswith("-") and not is_known and not is_mode:
            return word.text
        previous = word.text
    return ""


_SED_OPTIONS = AllowedOptions(
    flags="nErsuz",
    valued="e",
    long=names("quiet silent regexp-extended separate unbuffered null-data posix sandbox"),
    long_valued=frozenset({"expression"}),
)


def _delimited(delimiter: str) -> str:
    """Return a pattern for a regular expression up to its delimiter.

    Systems differ on a delimiter inside brackets and on the end of brackets, so only plain ones match.
    """
    sign = re.escape(delimiter)
    member = rf"(?:[^\]\[\^{sign}\\\n]|\[:[a-z]+:\])"
    return rf"{sign}(?:[^{sign}\\\n\[]|\\[^\n]|\[\^?{member}+\])*{sign}"


_SED_ADDRESS = rf"(?:[0-9]+(?:~[0-9]+)?|\$|{_delimited('/')}I?)"
_SED_GAP = " {0,4}"
"""Bounded, so that many blanks cost no time."""
_SED_SUBSTITUTE = "|".join(
    rf"s{_delimited(sign)}(?:[^{re.escape(sign)}\\\n]|\\[^\n])*{re.escape(sign)}[gIip0-9]*"
    for sign in "/|#,@:"
)
_SED_COMMAND = re.compile(
    rf"{_SED_GAP}(?:{_SED_ADDRESS}(?:,(?:{_SED_ADDRESS}|\+[0-9]+))?!?)?{_SED_GAP}"
    rf"(?:[pd=]|[qQ][0-9]*|{_SED_SUBSTITUTE})?{_SED_GAP}(?:[;\n]|\Z)"
)


def check_sed(arguments: Sequence[ShellWord]) -> str:
    """Allow addresses with p, d, =, q, and s without w and e; everything else may write or run."""
    given = sort_arguments(arguments, _SED_OPTIONS)
    if given.refused:
        return given.refused
    scripts = [value for name, value in given.options if name in ("e", "expression") and value is not None]
    if not scripts:
        scripts = list(given.operands[:1])
    for script in scripts:
        at = 0
        while script.is_literal and (found := _SED_COMMAND.match(script.text, at)) and found.end() > at:
            at = found.end()
        if not script.is_literal or at < len(script.text):
            return script.text
    return "" if scripts else "no script"


_STORES_COUNT = re.compile(r"%[^A-Za-z%]*[hjlLqtz]*n")


def check_printf(arguments: Sequence[ShellWord]) -> str:
    """Refuse -v and %n: both set a variable, possibly PATH."""
    operands = arguments[1:] if arguments and arguments[0].text == "--" else arguments
    if not operands:
        return "no format"
    pattern = operands[0]
    if not pattern.is_literal:
        return UNSURE
    if (operands is arguments and pattern.text.startswith("-")) or _STORES_COUNT.search(
        pattern.text.replace("%%", "")
    ):
        return pattern.text
    return ""


_UNARY = names("-b -c -d -e -f -g -h -k -n -p -r -s -t -u -w -x -z -G -L -N -O -S")
_BINARY = names("= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef")


def check_test(arguments: Sequence[ShellWord]) -> str:
    """Allow one test of a known form: -v and -R evaluate a subscript, which may contain a command."""
    terms = list(arguments)
    while terms and terms[0].text == "!" and terms[0].is_literal:
        terms = terms[1:]
    if not all(word.is_single for word in terms):
        return UNSURE
    match terms:
        case [] | [_]:
            return ""
        case [operator, _]:
            return "" if operator.is_literal and operator.text in _UNARY else operator.text
        case [_, operator, _]:
            return "" if operator.is_literal and operator.text in _BINARY else operator.text
        case _:
            return "a test of several parts"


def check_bracket(arguments: Sequence[ShellWord]) -> str:
    """Check like `test`, with a closing bracket."""
    if not arguments or arguments[-1].text != "]":
        return "no closing bracket"
    return check_test(arguments[:-1])


_XXD = re.compile(r"-(?:a|b|C|e|E|i|p|ps|u|[cglo][0-9]+|s[+-]?[0-9]+)")
_XXD_VALUED = names("-c -g -l -o -s")
_XXD_VALUE = re.compile(r"[+-]*(?:0x)?[0-9a-fA-F]+")


def check_xxd(arguments: Sequence[ShellWord]) -> str:
    """Allow at most one file after all options: a second one is written to, and so is the output of -r."""
    rest = list(arguments)
    while rest and rest[0].is_literal and rest[0].text.startswith("-") and rest[0].text != "-":
        option = rest.pop(0)
        if option.text in _XXD_VALUED and rest and rest[0].is_literal and _XXD_VALUE.fullmatch(rest[0].text):
            rest.pop(0)
        elif not _XXD.fullmatch(option.text):
            return option.text
    if len(rest) > 1 or any(not word.is_single or not word.is_tame for word in rest):
        return rest[-1].text
    return ""


def check_env(arguments: Sequence[ShellWord]) -> str:
    """Refuse arguments, with which it runs a program."""
    return arguments[0].text if arguments else ""


def check_command(arguments: Sequence[ShellWord]) -> str:
    """Allow only the form that describes a name."""
    if arguments and arguments[0].is_literal and arguments[0].text in ("-v", "-V"):
        return ""
    return "it runs a program"


_JQ_LOADS = re.compile(r"\b(?:import|include|modulemeta)\b")
_JQ_OPTIONS = re.compile(
    r"-[nrjascCMSeRbhV]+"
    r"|--(?:null-input|raw-output0?|join-output|ascii-output|slurp|compact-output|color-output|monochrome-output"
    r"|sort-keys|exit-status|raw-input|tab|indent|stream|stream-errors|seq|unbuffered|binary|arg|argjson"
    r"|slurpfile|rawfile|args|jsonargs|help|version)"
)


def check_jq(arguments: Sequence[ShellWord]) -> str:
    """Refuse programs from a file and those that load others: what they read is not in the arguments."""
    for word in arguments:
        if not word.is_tame:
            return UNSURE
        is_option = word.text.startswith("-") and word.text != "-"
        if _JQ_LOADS.search(word.text) or (is_option and not _JQ_OPTIONS.fullmatch(word.text)):
            return word.text
    return ""


def check_date_operands(operands: Sequence[ShellWord]) -> str:
    """Allow only a format to print; anything else sets the clock."""
    for word in operands:
        if not word.text.startswith("+") or not word.is_tame or not word.is_single:
            return word.text
    return ""


_GLOBAL_FLAGS = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"})
_DENIED_LONG = names(
    """
    --output --output-directory --ext-diff --textconv --open-files-in-pager --show-signature --filters
    --exec --upload-pack --paginate --help --edit --submodule --recurse-submodules --contents
    --ignore-revs-file
    """
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
    # Also after `--`, which an option may take as its value.
    problem = next(filter(None, map(_check_git_word, given)), "") or check(given)
    if problem == UNSURE:
        return f"{name.text}: {problem}"
    return f"{name.text} {problem}" if problem else ""


def _check_git_word(word: ShellWord) -> str:
    """Check what no subcommand may have."""
    if not word.is_tame:
        return UNSURE
    name = word.text.partition("=")[0]
    is_denied = len(name) > len("--") and any(denied.startswith(name) for denied in _DENIED_LONG)
    return word.text if is_denied or _RUNS_GPG.search(word.text) else ""


def _refuse(pattern: str) -> Callable[[Sequence[ShellWord]], str]:
    """Return a check that refuses arguments with this beginning."""
    refused = re.compile(pattern)
    return lambda arguments: next((word.text for word in arguments if refused.match(word.text)), "")


_SELECTS = names("contains no-contains merged no-merged points-at sort")
_BRANCH = AllowedOptions(
    flags="alrvq",
    long=_SELECTS
    | names(
        "all remotes verbose list show-current format color no-color column no-column ignore-case abbrev"
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
    | names("local worktree show-origin show-scope name-only null includes bool int path type"),
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
    is_one_key = len(given.operands) == 1 and given.operands[0].is_literal and "." in given.operands[0].text
    return "" if is_one_key or given.has("l", *_CONFIG_MODES) else "without --get"


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


_SYMBOLIC_REF = AllowedOptions(flags="q", long=names("short quiet"), max_operands=1)
_SUBCOMMANDS: Mapping[str, Callable[[Sequence[ShellWord]], str]] = {
    **dict.fromkeys(
        names(
            """
            cat-file check-attr check-ignore cherry count-objects describe diff diff-files
            diff-index diff-tree for-each-ref log ls-tree merge-base name-rev rev-list
            rev-parse shortlog show show-ref status version whatchanged
            """
        ),
        lambda _: "",
    ),
    # The files of `blame -S`, `grep -f` and `ls-files -X` are relative to the top of the work tree. The
    # letter may be behind others, but not behind one that takes the following text as its value.
    "blame": _refuse(r"-[^-LCM]*S"),
    "branch": _check_listing(_BRANCH, "list", "contains", "no-contains", "merged", "no-merged", "points-at"),
    "config": _check_config,
    "grep": _refuse(r"(?s)-(?!-).*O|-[^-eABCm]*f"),  # -O opens a pager on the matches
    "ls-files": _refuse(r"-[^-x]*X|--exclude-[fp]"),
    "reflog": _check_first("show", alone=True),
    "remote": _check_first("get-url", alone=True),
    "stash": _check_first("list", "show", alone=False),
    "symbolic-ref": lambda arguments: sort_arguments(arguments, _SYMBOLIC_REF).refused,
    "tag": _check_listing(_TAG, "l", "list"),
    "worktree": _check_first("list", alone=False),
}
