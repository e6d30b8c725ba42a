"""Renders facts as text within a token budget (C17b, C20)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nacre.messages.facts import Action, Facts, UserQuote
from nacre.messages.tokens import estimate_text

WORDS_TITLE = (
    "The user's messages, word for word and in order. They are a record: what they ask for may be done "
    "already. A missing number is a message for which there was no room."
)
DEEDS_TITLE = (
    "One line a call, in order: behind `!!` how it failed; behind `>` what the assistant said; further in, "
    "some of what was written or found. It is a record, not a request."
)
FENCE = "`"
MIN_FENCE = 3
INDENT = "    "
"""Prefix of every line of a detail, so that it cannot look like the next action."""
LINE_ENDS = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""All characters that may end a line."""
WEIGHTY = frozenset({"edit", "reply"})
"""Actions that changed something, and closing replies."""
LINES_SHARE = 0.8
"""Share of the action budget used for lines at first: on recorded sessions the newest details were needed
more often than the oldest lines, and if there was room for all lines it made no difference."""
SHORT_TOKENS = 150
"""A message up to this size is probably a rule or correction and is shown before larger ones."""
NEWLINE_TOKENS = 1
"""More than the line end between two pieces takes."""


@dataclass(frozen=True, slots=True)
class DigestPart:
    """The text, and the facts it shows."""

    text: str
    facts: Facts


def show_words(facts: Facts, tokens: int, *, where: str = "") -> DigestPart:
    """Return user quotes verbatim within the budget: the newest and shortest are chosen first.

    A pointer names how many messages have no room and where they can be read.
    """
    words = facts.words
    left = _Left("message of the user's", "messages of the user's", facts.left_words, where)
    page = _Page(WORDS_TITLE, [one.record_id for one in words], tokens, left=left)
    pieces = [_said(number, one) for number, one in enumerate(words, 1)]
    short = [place for place in range(len(pieces)) if _size(pieces[place]) <= SHORT_TOKENS]
    for place in reversed(short):
        # By age alone and without gaps, so that no rule is shown without its later correction.
        if not page.show(place, pieces[place]):
            break
    for place in _by_age_and_size(pieces, short):
        page.show(place, pieces[place])
    shown = tuple(words[place] for place in page.places)
    return DigestPart(page.text, Facts(words=shown, left_words=facts.left_words + len(words) - len(shown)))


def show_deeds(facts: Facts, tokens: int, *, where: str = "") -> DigestPart:
    """Return one line per action within the budget; the oldest are left out first, errors last.

    The remaining room is used for details: replies, written text, findings.
    """
    deeds = facts.deeds
    left = _Left("call", "calls", facts.left_deeds, where)
    page = _Page(DEEDS_TITLE, [one.id for one in deeds], tokens, left=left)
    order = _by_worth(deeds)
    for place in order:
        page.show(place, _done(deeds[place]), keep=round(tokens * (1 - LINES_SHARE)))
    detailed = {place for place in _by_detail(deeds) if page.grow(place, _in_full(deeds[place]))}
    for place in order:
        page.show(place, _done(deeds[place]))
    shown = tuple(
        deeds[place] if place in detailed else replace(deeds[place], detail="") for place in page.places
    )
    return DigestPart(page.text, Facts(deeds=shown, left_deeds=facts.left_deeds + len(deeds) - len(shown)))


def _by_age_and_size(pieces: Sequence[str], short: Sequence[int]) -> list[int]:
    """Return the order in which longer messages are chosen."""
    longer = set(range(len(pieces))) - set(short)
    return sorted(longer, key=lambda place: _size(pieces[place]) * (len(pieces) - place))


def together(words: DigestPart, deeds: DigestPart) -> Facts:
    """Return the facts shown by both."""
    return Facts(
        words=words.facts.words,
        deeds=deeds.facts.deeds,
        left_words=words.facts.left_words,
        left_deeds=deeds.facts.left_deeds,
    )


@dataclass(frozen=True, slots=True)
class _Left:
    """The pointer to what has no room."""

    one: str
    many: str
    before: int
    """Left out by earlier compactions."""
    where: str

    def line(self, ids: Sequence[str]) -> str:
        """Return the pointer; empty if nothing is left out."""
        count = self.before + len(ids)
        if not count:
            return ""
        place = f", in {self.where}" if self.where else ""
        span = f" (ids {ids[0]} to {ids[-1]})" if len(ids) > 1 else f" (id {ids[0]})" if ids else ""
        what, verb = (self.one, "is") if count == 1 else (self.many, "are")
        return f"{count:,} more {what} {verb} not shown here{place}{span}."


class _Page:
    """A budget for pieces that are chosen in one order and shown in another."""

    def __init__(self, title: str, ids: Sequence[str], tokens: int, *, left: _Left) -> None:
        self._title = title
        self._ids = ids
        self._left = left
        self._pieces: dict[int, str] = {}
        # Reserve room for the longest possible pointer.
        pointer = left.line([max(ids, key=len, default="")] * len(ids))
        self._room = tokens - _size(title) - (_size(pointer) if pointer else 0)

    def show(self, place: int, piece: str, *, keep: int = 0) -> bool:
        """Show a piece at its index if there is room with `keep` tokens to spare."""
        size = _size(piece)
        if place not in self._pieces and size <= self._room - keep:
            self._room -= size
            self._pieces[place] = piece
        return place in self._pieces

    def grow(self, place: int, piece: str) -> bool:
        """Replace a shown piece by a longer one if there is room."""
        if place not in self._pieces:
            return False
        more = _size(piece) - _size(self._pieces[place])
        if more > self._room:
            return False
        self._room -= more
        self._pieces[place] = piece
        return True

    @property
    def places(self) -> list[int]:
        return sorted(self._pieces)

    @property
    def text(self) -> str:
        """The text; empty if nothing is shown and there is no room for a pointer."""
        pointer = self._left.line([one for place, one in enumerate(self._ids) if place not in self._pieces])
        if self._room < 0 or not (self._pieces or pointer):
            return ""
        lines = [self._title, *(self._pieces[place] for place in self.places), pointer]
        return "\n".join(line for line in lines if line)


def _size(piece: str) -> int:
    return estimate_text(piece) + NEWLINE_TOKENS


def _said(number: int, words: UserQuote) -> str:
    """Return a message on its own line, or between fences that do not occur in it."""
    if not LINE_ENDS.search(words.text):
        return f"{number}. {words.text}"
    runs = re.findall(f"{FENCE}+", words.text)
    fence = FENCE * max(MIN_FENCE, 1 + max(map(len, runs), default=0))
    return f"{number}.\n{fence}\n{words.text}\n{fence}"


def _done(deed: Action) -> str:
    line = LINE_ENDS.sub(" ", deed.line if deed.tool else f"> {deed.line}")
    return f"- {line} !! {LINE_ENDS.sub(' ', deed.outcome)}" if deed.outcome else f"- {line}"


def _in_full(deed: Action) -> str:
    """Return an action with its detail; a reply without its line, which the detail repeats."""
    lines = [line for line in LINE_ENDS.split(deed.detail) if line.strip()]
    first = f"- > {lines.pop(0).strip()}" if lines and not deed.tool else _done(deed)
    return "\n".join([first, *(INDENT + line for line in lines)])


def _by_worth(deeds: Sequence[Action]) -> list[int]:
    """Return the order: changes, failures and closing replies, then others, remarks last; newest first.

    Actions that were repeated later, the same line or another read of the same file, come after all others.
    """
    seen: set[tuple[str, str]] = set()
    ranks: list[tuple[bool, int, int]] = []
    for place in range(len(deeds) - 1, -1, -1):
        deed = deeds[place]
        what = ((deed.kind == "read" and deed.about) or deed.line, deed.outcome)
        rank = 0 if deed.kind in WEIGHTY or deed.outcome else 2 if deed.kind == "remark" else 1
        ranks.append((what in seen, rank, -place))
        seen.add(what)
    return [-place for _, _, place in sorted(ranks)]


def _by_detail(deeds: Sequence[Action]) -> list[int]:
    """Return the order of details: those not in any file first, newest first."""
    places = [place for place in range(len(deeds) - 1, -1, -1) if deeds[place].detail]
    return sorted(places, key=lambda place: deeds[place].kind == "read")
