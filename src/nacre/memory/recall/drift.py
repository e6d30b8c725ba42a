"""Whether what a memory names is still in the working tree, within a budget, without running anything (R12).

Paths are looked at on disk, names and flags looked for in the tracked files. What was not reached in time has
no answer. What need not be in the tree at all (another program's flag, a file made at run time) is left out,
so that "gone" is only said of what a project should have. Blocking: call it in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.memory.recall.base import Drift, Ranked, Reference
from nacre.memory.recall.looking import Look
from nacre.memory.recall.references import Named, references_in
from nacre.memory.recall.words import Known, Told
from nacre.memory.scan import NotAMemory, read_head

BUDGET_SECONDS = 0.05
"""What a turn may spend on this, beside its reply; what takes longer is not worth waiting for (R12)."""
MAX_TOLD = 6
"""References named in one line for each answer; the rest is counted."""
MAX_TOLD_CHARS = 80
"""Of one reference, so that a line stays one."""


def check(
    named: str | Iterable[Named],
    root: Path,
    *,
    budget_seconds: float = BUDGET_SECONDS,
    clock: Clock = SYSTEM_CLOCK,
    known: Known | None = None,
) -> Drift:
    """How far the references of one text still hold in the working tree below a root."""
    return check_each([named], root, budget_seconds=budget_seconds, clock=clock, known=known)[0]


def check_each(
    texts: Sequence[str | Iterable[Named]],
    root: Path,
    *,
    budget_seconds: float = BUDGET_SECONDS,
    clock: Clock = SYSTEM_CLOCK,
    known: Known | None = None,
    told: Told | None = None,
) -> tuple[Drift, ...]:
    """The same for several texts, which share one budget and one pass over the files.

    `known` is a `WordCache`: it makes a check of a tree of more than 8 MB possible in time.
    """
    deadline = clock.seconds() + budget_seconds
    named = [references_in(one, root) if isinstance(one, str) else tuple(one) for one in texts]
    wanted = dict.fromkeys(one for each in named for one in each)
    look = Look(root, is_late=lambda: clock.seconds() >= deadline, told=told, known=known)
    answers = look.answers(wanted) if wanted else {}
    return tuple(_drift(each, answers) for each in named)


def check_ranked(
    ranked: Sequence[Ranked],
    root: Path,
    *,
    budget_seconds: float = BUDGET_SECONDS,
    clock: Clock = SYSTEM_CLOCK,
    known: Known | None = None,
) -> tuple[Drift | None, ...]:
    """The same for memories about to be attached; none for one that cannot be read."""
    texts = [_text(one) for one in ranked]
    said = [text or "" for text in texts]
    found = check_each(said, root, budget_seconds=budget_seconds, clock=clock, known=known)
    return tuple(None if text is None else drift for text, drift in zip(texts, found, strict=True))


def one_line(drift: Drift) -> str:
    """What is gone, what is still there, what was not looked for; empty when nothing is named."""
    there = [one for one in drift.references if one.exists]
    parts = [
        f"{word} {_listed(found)}"
        for word, found in (
            ("gone:", drift.gone),
            ("still there:", there),
            ("not looked for:", drift.unchecked),
        )
        if found
    ]
    return f"In the working tree: {'; '.join(parts)}." if parts else ""


def _drift(named: Iterable[Named], answers: Mapping[Named, bool | None]) -> Drift:
    return Drift(
        references=tuple(
            Reference(kind=one[0], text=one[1], exists=answers[one]) for one in named if one in answers
        )
    )


def _text(ranked: Ranked) -> str | None:
    try:
        return read_head(str(ranked.path), whole=True).data.decode(errors="replace")
    except (OSError, NotAMemory):
        return None


def _listed(references: Sequence[Reference]) -> str:
    names = [f"`{_short(one.text)}`" for one in references[:MAX_TOLD]]
    more = len(references) - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more else "")


def _short(text: str) -> str:
    return text if len(text) <= MAX_TOLD_CHARS else text[: MAX_TOLD_CHARS - 1] + "…"
