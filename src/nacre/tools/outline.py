"""The names that a text file defines, with their lines, by simple rules for common languages.

One regular expression per language is matched against every line; nothing is parsed. A name in a comment or
a string may be listed, and an unusual definition may be missed: the outline says where to read, not what is
there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import NamedTuple

MAX_ROW_CHARS = 120
"""Characters of a line that are shown; enough for most signatures."""
MAX_MATCHED_CHARS = 400
"""Characters of a line that are matched; longer lines are data or minified code."""
TAB_COLUMNS = 4


class OutlineRow(NamedTuple):
    """A line that defines a name."""

    number: int
    text: str
    """The line with its indentation, without its end; cut if it is long."""


class Outline(NamedTuple):
    """The names of a file, in order."""

    rows: tuple[OutlineRow, ...]
    left_out: int
    """How many names there was no room for."""


def outline(name: str, lines: Sequence[str], *, after: int = 0, chars: int) -> Outline:
    """Return the names that lines after the line `after` define, in at most `chars` characters.

    The kind of file goes by its name. If there are too many names, those that are indented most are left
    out first.
    """
    rule = _rule(name)
    if rule is None:
        return Outline((), 0)
    numbers = _markdown(lines) if rule is _HEADING else _matching(rule, lines)
    numbers = [number for number in numbers if number > after]
    depths = {number: _indent(lines[number - 1]) for number in numbers}
    if rule is _HEADING:
        depths = {number: len(lines[number - 1]) - len(lines[number - 1].lstrip("#")) for number in numbers}
    rows = {number: _row(number, lines[number - 1]) for number in numbers}
    room = chars
    kept: list[int] = []
    for depth in sorted(set(depths.values())):
        level = [rows[one] for one in numbers if depths[one] == depth]
        # Of a level that does not fit every second or third is taken, so that no part of the file is blank.
        step = -(-sum(map(_size, level)) // room) if room else len(level)
        for row in level[::step]:
            if _size(row) > room:
                break
            room -= _size(row)
            kept.append(row.number)
        if step > 1:
            break
    return Outline(tuple(rows[one] for one in sorted(kept)), len(numbers) - len(kept))


def _size(row: OutlineRow) -> int:
    """Return the characters of a row with its number and line end."""
    return len(str(row.number)) + len(row.text) + 2


def _row(number: int, line: str) -> OutlineRow:
    line = line.rstrip()
    return OutlineRow(number, line if len(line) <= MAX_ROW_CHARS else f"{line[: MAX_ROW_CHARS - 1]}…")


def _matching(rule: re.Pattern[str], lines: Iterable[str]) -> list[int]:
    return [number for number, line in enumerate(lines, 1) if rule.match(line[:MAX_MATCHED_CHARS])]


def _markdown(lines: Iterable[str]) -> list[int]:
    """Return the lines of headings outside of fenced code."""
    found: list[int] = []
    fence = ""
    for number, line in enumerate(lines, 1):
        mark = _FENCE.match(line)
        is_end = mark is not None and line.strip() == mark[1] and mark[1].startswith(fence)
        if mark is not None and (not fence or is_end):
            fence = "" if fence else mark[1][:3]
        elif not fence and _HEADING.match(line[:MAX_MATCHED_CHARS]):
            found.append(number)
    return found


def _indent(line: str) -> int:
    return len(line.expandtabs(TAB_COLUMNS)) - len(line.lstrip().expandtabs(TAB_COLUMNS))


def _rule(name: str) -> re.Pattern[str] | None:
    path = PurePath(name.lower())
    return _BY_NAME.get(path.name) or _BY_SUFFIX.get(path.suffix)


_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"#{1,6}\s+\S")
_PYTHON = re.compile(
    r"\s*(?:async\s+def|def|class)\s+\w|[A-Z_][A-Z0-9_]*\s*(?::[^=]+)?=[^=]|if\s+__name__\s*=="
)
_JAVASCRIPT = re.compile(
    r"""
      \s*(?:export\s+)?(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?
        (?:function\b|(?:class|interface|enum|namespace|module)\s+[\w$'"])
    | \s*(?:export\s+)?(?:declare\s+)?type\s+[\w$]+[^=]*=
    | (?:export\s+)?(?:declare\s+)?(?:const|let|var)\s+[\w$\[{]
    | export\s+(?:default|\*|\{)
    | \s*(?:describe|it|test|suite|beforeEach|afterEach)(?:\.\w+)*\(
    | (?:module\.)?exports\b[^=]*=
    | [ \t]+(?!(?:if|for|while|switch|catch|return|function|else|do|try|with|await|new|throw|typeof)\b)
        (?:(?:public|private|protected|static|async|get|set|readonly|override)\s+)*
        [*#]?[\w$]+\??\s*(?:<[^()]*>)?\([^;]*\)\s*(?::[^;{]+)?\{\s*$
    | [ \t]+(?:(?:public|private|protected|static|readonly)\s+)*[\w$]+\s*(?::[^=]+)?=
        \s*(?:async\s*)?\([^;]*=>\s*\{?\s*$
    """,
    re.VERBOSE,
)
_GO = re.compile(r"(?:func|type|const|var|package)\b|\t[A-Z]\w*\s+(?:struct|interface)\b")
_RUST = re.compile(
    r"""\s*(?:pub(?:\([^)]*\))?\s+)?(?:(?:async|unsafe|default|extern(?:\s+"[^"]*")?)\s+|const\s+(?=fn\b|unsafe\b))*
        (?:(?:fn|struct|enum|trait|mod|type|union)\s+\w|impl\b|macro_rules!|(?:static|const)\s+(?:mut\s+)?[A-Z_]\w*\s*:)
    """,
    re.VERBOSE,
)
_JAVA = re.compile(
    r"""
      \s*(?:@\w+(?:\([^)]*\))?\s+)*
        (?:(?:public|private|protected|internal|static|final|abstract|sealed|open|data|partial|strictfp|export)\s+)*
        (?:class|interface|enum|record|@interface|struct|object|trait|namespace|protocol|extension|actor)\s+\w
    | \s*(?:(?:public|private|protected|internal|static|final|abstract|override|open|suspend|inline|operator
          |async|virtual|default|synchronized|native|mutating|unsafe|extern|readonly|new|sealed)\s+)*
        (?:fun|func|def|init|deinit)\b[\s(<]
    | \s*(?:(?:public|private|protected|internal|static|final|abstract|override|async|virtual|default
          |synchronized|native|unsafe|extern|readonly|sealed)\s+)+
        [\w<>\[\],.?\s]*?\w\s*[({=]
    | [ \t]+(?!(?:if|for|while|switch|catch|return|else|do|try|new|throw|case|synchronized|using|lock|assert
          |await|yield)\b)
        [\w<>\[\],.?]+(?:\s[\w<>\[\],.?]+)*\s+\w+\([^;{]*\)\s*(?:throws\s[\w.,\s]+)?\{\s*$
    """,
    re.VERBOSE,
)
_C = re.compile(
    r"""
      (?:typedef\s+)?(?:struct|class|enum|union|namespace|template|typedef)\b
    | \s+(?:class|struct|enum)\s+\w+[^;()]*\{?\s*$
    | \#\s*define\s+\w
    | (?!(?:if|else|for|while|switch|return|case|do|goto|using|extern\s+"C")\b)
        [A-Za-z_~][\w\s*&:<>,~\[\]]*\b(?:operator\S+\s*)?\([^;]*$
    | [ \t]+(?!(?:if|else|for|while|switch|return|case|do|catch)\b)
        (?:[\w:<>,*&~]+\s+)*[\w:~]+\([^;]*\)\s*(?:const\s*|noexcept\s*|override\s*)*\{\s*$
    | (?:extern|static|const|constexpr|inline)\s[^;(]*(?:=|\[)
    """,
    re.VERBOSE,
)
_RUBY = re.compile(r"\s*(?:def|class|module)\s+\S|[A-Z]\w*\s*=[^=]|\s*(?:describe|context|it)\s+['\"]")
_PHP = re.compile(
    r"\s*(?:(?:abstract|final|public|private|protected|static|readonly)\s+)*"
    r"(?:function|class|interface|trait|enum|namespace|const)\s+[\w&\\]"
)
_SHELL = re.compile(r"\s*(?:function\s+[\w:.-]+|[\w:.-]+\s*\(\s*\))|(?:export\s+)?[A-Z_][A-Z0-9_]*=")
_JSON = re.compile(r'\s*"[^"]{1,80}"\s*:')
_YAML = re.compile(r"\s*(?:-\s+)?(?:[\w./$@-][^\s:#]*|\"[^\"]+\"|'[^']+')\s*:(?:\s|$)|---\s*$")
_TOML = re.compile(r"\s*\[{1,2}[^\]]+\]{1,2}|[\w.\"'-]+\s*=")
_INI = re.compile(r"\s*\[[^\]]+\]")
_MAKE = re.compile(r"[\w./$%()-][^\s:=]*(?:\s[^:=]*)?:(?!=)|[A-Z_]+\s*[:?+]?=|define\s+\w")
_CSS = re.compile(r"\s*[^\s{}/*][^{}]*\{\s*$|@[\w-]+\s")
_HTML = re.compile(r"\s*<(?:h[1-6]|head|body|main|section|article|nav|form|template|script|style)\b|.*\sid=")
_SQL = re.compile(r"\s*(?:create|alter|drop|insert\s+into|with)\s+\w", re.IGNORECASE)
_PROTO = re.compile(r"\s*(?:message|service|rpc|enum|type|input|interface|extend|union|scalar|query)\s+\w")
_TEX = re.compile(r"\s*\\(?:part|chapter|(?:sub)*section|begin\{(?:figure|table)|label)\b")

_SUFFIXES: dict[re.Pattern[str], str] = {
    _PYTHON: "py pyi pyx",
    _JAVASCRIPT: "js jsx ts tsx mjs cjs mts cts vue svelte",
    _GO: "go",
    _RUST: "rs",
    _JAVA: "java kt kts cs scala swift groovy dart",
    _C: "c h cc cpp cxx hh hpp hxx m mm cu",
    _RUBY: "rb rake",
    _PHP: "php",
    _SHELL: "sh bash zsh",
    _HEADING: "md markdown mdx",
    _JSON: "json json5 jsonc webmanifest",
    _YAML: "yaml yml",
    _TOML: "toml",
    _INI: "ini cfg conf editorconfig",
    _MAKE: "mk",
    _CSS: "css scss less",
    _HTML: "html htm xhtml",
    _SQL: "sql",
    _PROTO: "proto graphql gql",
    _TEX: "tex",
}
_BY_SUFFIX = {f".{suffix}": rule for rule, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}
_BY_NAME = {"makefile": _MAKE, "gnumakefile": _MAKE, "rakefile": _RUBY, "gemfile": _RUBY}
