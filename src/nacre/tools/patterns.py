"""Glob patterns as regular expressions: `*`, `?`, `**`, `[a-z]`, `{py,md}`."""

from __future__ import annotations

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
    """A regular expression that matches, whole, the relative paths the pattern means."""
    # Any number of directories, said twice, is the same and takes the matcher far longer to rule out.
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
            pieces.append(_character_set(text[1:-1]))
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


def split_fixed(pattern: str) -> tuple[str, str]:
    """The directory a pattern names outright, and the rest that has to be matched."""
    parts = pattern.split("/")
    fixed = next((place for place, part in enumerate(parts) if _WILD.search(part)), len(parts) - 1)
    return "/".join(parts[:fixed]) or ("/" if fixed and pattern.startswith("/") else ""), "/".join(
        parts[fixed:]
    )


def named_place(path: str, pattern: str) -> str:
    """The directory in which a pattern is looked for: below the path, or where the pattern itself says."""
    return os.path.join(path, os.path.expanduser(split_fixed(pattern)[0]))  # noqa: PTH111, PTH118  # keeps `~x` as it is


def _character_set(inside: str) -> str:
    negated = inside[:1] in {"!", "^"}
    # Two dashes would be a set operation to Python one day, and it warns about that now.
    members = re.sub(r"([\\\[\]&~|^]|-(?=-))", r"\\\1", inside[1:] if negated else inside)
    return f"[^/{members}]" if negated else f"[{members}]"
