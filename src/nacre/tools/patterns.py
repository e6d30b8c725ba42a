"""Translate glob patterns into regular expressions: `*`, `?`, `**`, `[a-z]`, `{py,md}`."""

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
    """Split a pattern into its fixed directory and the rest that has to be matched."""
    parts = pattern.split("/")
    fixed = next((place for place, part in enumerate(parts) if _WILD.search(part)), len(parts) - 1)
    return "/".join(parts[:fixed]) or ("/" if fixed and pattern.startswith("/") else ""), "/".join(
        parts[fixed:]
    )


def named_place(path: str, pattern: str) -> str:
    """Return the directory to search: below the path, or the one that the pattern itself names."""
    return os.path.join(path, os.path.expanduser(split_fixed(pattern)[0]))  # noqa: PTH111, PTH118  # keeps `~x` as it is


def _character_set(inside: str) -> str:
    negated = inside[:1] in {"!", "^"}
    # Python warns about two dashes, which may become a set operation.
    members = re.sub(r"([\\\[\]&~|^]|-(?=-))", r"\\\1", inside[1:] if negated else inside)
    return f"[^/{members}]" if negated else f"[{members}]"
