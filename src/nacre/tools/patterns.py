"""Match glob patterns, or translate them into regular expressions: `*`, `?`, `**`, `[a-z]`, `{py,md}`.

`matches` takes milliseconds for any pattern and path. A regular expression with many stars can take hours for
one path, so that `translate` is only for searches, which have a time limit.
"""

from __future__ import annotations

import functools
import os
import re

_WILD = re.compile(r"[*?\[{]")
_TOKEN = re.compile(
    r"(?P<folders>(?:(?<=/)|^)\*\*/)|(?P<anything>\*\*)|(?P<part>\*)|(?P<one>\?)"
    r"|(?P<set>\[[!^]?+(?:\][^\]/]*|[^\]/]+)\])|(?P<open>\{)|(?P<comma>,)|(?P<close>\})|(?P<plain>.)",
    re.DOTALL,
)
_FIXED = {"folders": "(?:[^/]+/)*", "anything": ".*", "part": "[^/]*", "one": "[^/]"}


def translate(pattern: str) -> str:
    """Return a regular expression for `fullmatch` on relative paths."""
    # A repeated `**/` means the same and makes the matcher backtrack far longer.
    pattern = re.sub(r"(?:\*\*/)+", "**/", pattern)
    depth = 0
    pieces = ["(?s:"]
    is_paired = pattern.count("{") == pattern.count("}")
    for token in _TOKEN.finditer(pattern):
        kind = token.lastgroup or "plain"
        text = token[0]
        if kind in _FIXED:
            pieces.append(_FIXED[kind])
        elif kind == "set":
            pieces.append(_character_set(text))
        elif kind == "open" and is_paired:
            depth += 1
            pieces.append("(?:")
        elif kind == "close" and depth:
            depth -= 1
            pieces.append(")")
        elif kind == "comma" and depth:
            pieces.append("|")
        else:
            pieces.append(re.escape(text))
    return "".join(pieces) + ")" * depth + ")"


def matches(pattern: str, path: str, *, or_below: bool = False) -> bool:
    """Return whether a relative path matches; `or_below`: or whether a directory that it is in matches.

    Bit n of `ends` says that the pattern so far matches the first n characters of the path.
    """
    pattern = re.sub(r"(?:\*\*/)+", "**/", pattern)
    is_paired = pattern.count("{") == pattern.count("}")
    slashes = _places("/", path)
    ends = 1
    braces: list[tuple[int, int]] = []
    for token in _TOKEN.finditer(pattern):
        match token.lastgroup:
            case "open" if is_paired:
                braces.append((ends, 0))
            case "comma" if braces:
                before, others = braces.pop()
                braces.append((before, others | ends))
                ends = before
            case "close" if braces:
                ends |= braces.pop()[1]
            case kind:
                ends = _after(kind, token[0], ends, path)
    for _, others in reversed(braces):
        ends |= others
    return bool(ends >> len(path) & 1 or (or_below and ends & slashes))


def _after(kind: str | None, text: str, ends: int, path: str) -> int:
    """Return the ends after one more token of the pattern."""
    slashes = _places("/", path)
    names = ~slashes & ((1 << len(path)) - 1)
    match kind:
        case "anything":
            return (2 << len(path)) - (ends & -ends) if ends else 0
        case "part":
            return _spread(ends, names)
        case "folders":
            step = ends
            while step:
                step = (_spread((step & names) << 1, names) & slashes) << 1
                ends |= step
            return ends
        case "one":
            return (ends & names) << 1
        case "set":
            return (ends & _places(_character_set(text), path)) << 1
        case _:
            return (ends & _places(re.escape(text), path)) << 1


@functools.lru_cache(maxsize=256)
def _places(character: str, path: str) -> int:
    """Return a bit for each character of the path that an expression for one character matches."""
    return sum(1 << found.start() for found in re.finditer(character, path, re.DOTALL))


def _spread(ends: int, through: int) -> int:
    """Return the ends with all that follow them without a gap."""
    while (grown := ends | (ends & through) << 1) != ends:
        ends = grown
    return ends


def _character_set(text: str) -> str:
    inside = text[1:-1]
    is_negated = inside[:1] in {"!", "^"}
    # Python warns about two dashes, which may become a set operation.
    members = re.sub(r"([\\\[\]&~|^]|-(?=-))", r"\\\1", inside[is_negated:])
    return f"[^/{members}]" if is_negated else f"[{members}]"


def split_fixed(pattern: str) -> tuple[str, str]:
    """Split a pattern into its fixed directory and the rest that has to be matched."""
    parts = pattern.split("/")
    fixed = next((place for place, part in enumerate(parts) if _WILD.search(part)), len(parts) - 1)
    directory = "/".join(parts[:fixed]) or ("/" if fixed and pattern.startswith("/") else "")
    return directory, "/".join(parts[fixed:])


def named_place(path: str, pattern: str) -> str:
    """Return the directory to search: below the path, or the one that the pattern itself names."""
    return os.path.join(path, os.path.expanduser(split_fixed(pattern)[0]))  # noqa: PTH111, PTH118  # keeps `~x` as it is
