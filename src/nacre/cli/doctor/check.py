"""A check of `nacre doctor`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """What was checked and the result."""

    name: str
    ok: bool
    message: str
    is_note: bool = False
    """A remark: nothing is wrong."""

    @property
    def mark(self) -> str:
        return "PROBLEM" if not self.ok else "note" if self.is_note else "ok"


def note(name: str, message: str) -> Check:
    """Return a check that is only a remark."""
    return Check(name, ok=True, message=message, is_note=True)
