"""One thing an audit found: where, what, how bad, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from nacre.memory.lint import Level as Level

AuditKind: TypeAlias = Literal[
    "secret", "hidden-text", "broken-pointer", "broken-link", "unreadable", "untrusted-listed", "untrusted",
    "stale", "relative-date", "duplicate", "near-duplicate", "junk-task", "junk-history", "junk-code",
    "too-long", "too-vague", "no-description", "vague-description", "frontmatter", "untyped", "unlisted",
    "index-over-budget", "index-near-budget", "index-line-long", "index-untidy", "index-holds-facts",
]  # fmt: skip
LEVELS: tuple[Level, ...] = ("error", "warning", "info")
"""The worst first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFinding:
    """One finding; a memory of another program that keeps no files goes by its id."""

    file: str
    line: int = 1
    """In the file, counted from one; in the text of a memory that has no file."""
    kind: AuditKind
    level: Level
    message: str
    """What is wrong, in one line; never a credential's value."""
    advice: str
    """What to do."""
    others: tuple[str, ...] = ()
    """Other memories that it is about."""
