"""One thing that `nacre doctor` looked at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, and what was found."""

    name: str
    ok: bool
    message: str
    is_note: bool = False
    """Worth knowing, and nothing is wrong."""

    @property
    def mark(self) -> str:
        return "PROBLEM" if not self.ok else "note" if self.is_note else "ok"


def note(name: str, message: str) -> Check:
    """Something worth knowing."""
    return Check(name, ok=True, message=message, is_note=True)
