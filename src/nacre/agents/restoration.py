"""What the model must see again after a compaction, collected from the layers of a session (C21)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from nacre import prompts
from nacre.agents.carrying import carried
from nacre.agents.session import Session
from nacre.errors import NacreError
from nacre.messages.blocks import JsonObject
from nacre.messages.pairing import Item
from nacre.messages.records import Noted
from nacre.messages.summary import Fragment
from nacre.messages.tokens import estimate_text
from nacre.messages.view import View
from nacre.tools.workspace import Version

RESTORED_OTHER = prompts.load(__package__, "restored_other")
SOURCE_TOKENS = 5_000
"""Of one skill, plan or list of agents: the head of it says what it is for (C21)."""
SOURCES_TOKENS = 25_000
"""Of all of them together (C21)."""
LEAST_TOKENS = 200
"""Less room than this holds no more than the words that say what something is."""
CUT = "[Cut here for want of room; the whole of it is on disk.]"

_ORDER = {"plan": 0, "agents": 1, "skill": 2}
"""What counts more when there is not room for all that sources bring."""
_CLOSING = re.compile(r"</[a-z-]+>\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What was read again the last time, and for which kept items."""

    fragments: tuple[Fragment, ...] = ()
    kept: Sequence[Item] = ()
    files: tuple[Path, ...] = ()
    """In the order they were read lately, newest first."""
    whole: Mapping[Path, Version] = field(default_factory=lambda: MappingProxyType({}))
    """Those that stand there to the last line and to the letter, in which version."""
    told: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Which instructions, by path, in which version."""
    day: str = ""
    """The date that the opening names; empty when there is none."""
    seen: frozenset[Path] = frozenset()
    """What the workspace took for seen then."""
    shown: Callable[[Path], str] = str

    @property
    def notice(self) -> str:
        """One line for the person; empty when no file came back."""
        names = ", ".join(self.shown(path) for path in self.files)
        return f"restored {len(self.files)} file{'s' * (len(self.files) != 1)}: {names}" if names else ""

    @property
    def facts(self) -> JsonObject:
        """For the log."""
        return {
            "kinds": [one.kind for one in self.fragments],
            "files": [str(path) for path in self.files],
            "tokens": sum(estimate_text(one.text) for one in self.fragments),
        }


class Restorer:
    """Collects from the layers of a session what the model must see again after a compaction."""

    def __init__(self, session: Session) -> None:
        self.last = Restored()
        self._session = session

    async def fragments(self, kept: Sequence[Item], tokens: int) -> list[Fragment]:
        """What is restored beside the kept items, within so many tokens."""
        self.last = Restored(fragments=tuple(await self._from_layers(kept, tokens)), kept=kept)
        return list(self.last.fragments)

    def carry(self, view: View, summary_id: str, own: Sequence[Noted] = ()) -> tuple[Noted, ...]:
        """The notes that the record of the compaction keeps, given those that are there already."""
        restored = self.last.fragments
        layers = (note for one in self._session.layers for note in one.carry(restored, summary_id))
        notes = (*self._notes(summary_id), *layers, *own)
        return carried(
            view, summary_id=summary_id, clock=self._session.clock, more=notes, kept=self.last.kept
        )

    def settle(self) -> None:
        """Called when the compaction with the last fragments is in the transcript."""

    def _notes(self, summary_id: str) -> Sequence[Noted]:
        return ()

    async def _from_layers(self, kept: Sequence[Item], tokens: int) -> list[Fragment]:
        """What layers restore: framed, the plan first, each within its bound, all within so many tokens."""
        brought: list[Fragment] = []
        for layer in self._session.layers:
            try:
                brought += await layer.restore(kept)
            except (NacreError, OSError):
                continue  # a plan that cannot be read now must not keep a session from going on
        ordered = sorted(brought, key=lambda one: _ORDER.get(one.kind, len(_ORDER)))
        framed = (
            replace(
                one, text=cut(prompts.render(RESTORED_OTHER, name=one.name, text=one.text), SOURCE_TOKENS)
            )
            for one in ordered
        )
        return within(framed, min(tokens, SOURCES_TOKENS))


def within(fragments: Iterable[Fragment], tokens: int) -> list[Fragment]:
    """As many as there is room for, in this order; the last one that fits in part is cut."""
    found: list[Fragment] = []
    for one in fragments:
        if not one.text or tokens < min(LEAST_TOKENS, estimate_text(one.text)):
            continue
        found.append(replace(one, text=cut(one.text, tokens)))
        tokens -= estimate_text(found[-1].text)
    return found


def cut(text: str, tokens: int) -> str:
    """The head of it, in whole lines, with a word that there is more."""
    if estimate_text(text) <= tokens:
        return text
    closing = _CLOSING.search(text)
    end = "\n".join([CUT, *([closing[0]] if closing else [])])
    room, lines = tokens - estimate_text(end) - 1, list[str]()
    for line in text.splitlines():
        room -= estimate_text(line) + 1
        if room < 0:
            break
        lines.append(line)
    return "\n".join([*lines, end])
