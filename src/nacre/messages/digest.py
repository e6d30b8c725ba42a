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
ACTIONS_TITLE = (
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
    longer = set(range(len(pieces))) - set(short)
    for place in sorted(longer, key=lambda place: _size(pieces[place]) * (len(pieces) - place)):
        page.show(place, pieces[place])
    shown = tuple(words[place] for place in page.places)
    return DigestPart(page.text, Facts(words=shown, left_words=facts.left_words + len(words) - len(shown)))


def show_actions(facts: Facts, tokens: int, *, where: str = "") -> DigestPart:
    """Return one line per action within the budget; the oldest are left out first, errors last.

    The remaining room is used for details: replies, written text, findings.
    """
    actions = facts.actions
    left = _Left("call", "calls", facts.left_actions, where)
    page = _Page(ACTIONS_TITLE, [one.id for one in actions], tokens, left=left)
    order = _by_worth(actions)
    for place in order:
        page.show(place, _done(actions[place]), keep=round(tokens * (1 - LINES_SHARE)))
    # Details that are not in any file first, newest first.
    places = [place for place in range(len(actions) - 1, -1, -1) if actions[place].detail]
    places.sort(key=lambda place: actions[place].kind == "read")
    detailed = {place for place in places if page.grow(place, _in_full(actions[place]))}
    for place in order:
        page.show(place, _done(actions[place]))
    shown = tuple(
        actions[place] if place in detailed else replace(actions[place], detail="") for place in page.places
    )
    left_actions = facts.left_actions + len(actions) - len(shown)
    return DigestPart(page.text, Facts(actions=shown, left_actions=left_actions))


def together(words: DigestPart, actions: DigestPart) -> Facts:
    """Return the facts shown by both."""
    return Facts(
        words=words.facts.words,
        actions=actions.facts.actions,
        left_words=words.facts.left_words,
        left_actions=actions.facts.left_actions,
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


def _done(action: Action) -> str:
    line = LINE_ENDS.sub(" ", action.line if action.tool else f"> {action.line}")
    return f"- {line} !! {LINE_ENDS.sub(' ', action.outcome)}" if action.outcome else f"- {line}"


def _in_full(action: Action) -> str:
    """Return an action with its detail; a reply without its line, which the detail repeats."""
    lines = [line for line in LINE_ENDS.split(action.detail) if line.strip()]
    first = f"- > {lines.pop(0).strip()}" if lines and not action.tool else _done(action)
    return "\n".join([first, *(INDENT + line for line in lines)])


def _by_worth(actions: Sequence[Action]) -> list[int]:
    """Return the order: changes, failures and closing replies, then others, remarks last; newest first.

    Actions that were repeated later, the same line or another read of the same file, come after all others.
    """
    seen: set[tuple[str, str]] = set()
    ranks: list[tuple[bool, int, int]] = []
    for place in range(len(actions) - 1, -1, -1):
        action = actions[place]
        what = ((action.kind == "read" and action.about) or action.line, action.outcome)
        rank = 0 if action.kind in WEIGHTY or action.outcome else 2 if action.kind == "remark" else 1
        ranks.append((what in seen, rank, -place))
        seen.add(what)
    return [-place for _, _, place in sorted(ranks)]
