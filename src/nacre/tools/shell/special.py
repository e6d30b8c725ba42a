"""Checks of programs whose arguments are a language of their own: find, jq, sed, printf, test, xxd.

Each check returns what is wrong with the arguments, or an empty string.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from nacre.tools.shell.commands import ShellWord
from nacre.tools.shell.options import AllowedOptions, names, sort_arguments

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


def _substitute(delimiter: str) -> str:
    sign = re.escape(delimiter)
    return rf"s{_delimited(delimiter)}(?:[^{sign}\\\n]|\\[^\n])*{sign}[gIip0-9]*"


_SED_ADDRESS = rf"(?:[0-9]+(?:~[0-9]+)?|\$|{_delimited('/')}I?)"
_SED_GAP = " {0,4}"
"""Bounded, so that many blanks cost no time."""
_SED_COMMAND = re.compile(
    rf"{_SED_GAP}(?:{_SED_ADDRESS}(?:,(?:{_SED_ADDRESS}|\+[0-9]+))?!?)?{_SED_GAP}"
    rf"(?:[pd=]|[qQ][0-9]*|{'|'.join(_substitute(sign) for sign in '/|#,@:')})?{_SED_GAP}(?:[;\n]|\Z)"
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
        if not (script.is_literal and _is_plain_sed(script.text)):
            return script.text
    return "" if scripts else "no script"


def _is_plain_sed(script: str) -> bool:
    at = 0
    while at < len(script):
        command = _SED_COMMAND.match(script, at)
        if command is None or command.end() == at:
            return False
        at = command.end()
    return True


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


_JQ_LOADS = re.compile(r"\b(?:import|include)\b")
_JQ_FROM_FILE = re.compile(r"-[^-]*[fL]|--from|--lib")


def check_jq(arguments: Sequence[ShellWord]) -> str:
    """Refuse programs from a file and those that load others: what they read is not in the arguments."""
    for word in arguments:
        if not word.is_tame:
            return UNSURE
        if _JQ_LOADS.search(word.text) or _JQ_FROM_FILE.match(word.text):
            return word.text
    return ""


_DATE_FORMAT = "+"


def check_date_operands(operands: Sequence[ShellWord]) -> str:
    """Allow only a format to print; anything else sets the clock."""
    for word in operands:
        if not word.text.startswith(_DATE_FORMAT) or not word.is_tame or not word.is_single:
            return word.text
    return ""
