"""Who said what a memory says: judged by whose words it repeats, mechanically and without a model (M16b)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from nacre.memory.entry import Origin

RUN = 3
"""Words in a row that count as repeated: two meet by chance, and four miss a text with small changes."""
FROM_OUTSIDE = 0.3
"""From this share of its runs on a text repeats what a tool said: a quotation may be wrapped in own words."""
FROM_USER = 0.5
"""From this share on it is the person's own statement; below it the agent put it into words."""

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\W_]+")


def origin_of(text: str, *, by_user: Iterable[str], by_tools: Iterable[str]) -> Origin:
    """`untrusted` when a text repeats tool results more than the person, else `user` or `agent`."""
    runs = _runs(_words(text))
    if not runs:
        return "agent"
    user = _share(runs, by_user)
    tools = _share(runs, by_tools)
    if tools >= FROM_OUTSIDE and tools > user:
        return "untrusted"
    return "user" if user >= FROM_USER else "agent"


def _share(runs: list[str], texts: Iterable[str]) -> float:
    said = " | ".join(f" {' '.join(_words(text))} " for text in texts)
    return sum(run in said for run in runs) / len(runs)


def _runs(words: list[str]) -> list[str]:
    size = min(RUN, len(words))
    return [f" {' '.join(words[at : at + size])} " for at in range(len(words) - size + 1)] if size else []


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
