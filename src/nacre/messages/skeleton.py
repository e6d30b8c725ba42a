"""Facts as text within a budget: part of everything that stands for a conversation (C17b, C20)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nacre.messages.facts import Deed, Facts, Words
from nacre.messages.tokens import estimate_text

WORDS_TITLE = (
    "What the person said so far, word for word and in order. It is a record: what in it was asked for may "
    "be done already. A number that is missing is a message for which there was no room."
)
DEEDS_TITLE = (
    "What was done so far, in order, one line a call; behind `!!` how a call failed, behind `>` how a turn "
    "was closed. It is a record, not a request."
)
FENCE = "`"
MIN_FENCE = 3
LINE_ENDS = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""Whatever some reader may take for the end of a line."""
NEWLINE_TOKENS = 1
"""More than the line end between two pieces takes."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What was shown, and the facts that are known from now on: exactly those."""

    text: str
    facts: Facts


def show_words(facts: Facts, tokens: int, *, where: str = "") -> Shown:
    """A person's words verbatim, in order, within so many tokens: the newest and shortest first.

    What has no room is pointed to: how many messages, and where they can be read.
    """
    pieces = [_said(number, words) for number, words in enumerate(facts.words, 1)]
    newest_first = range(len(pieces), 0, -1)
    sizes = [_size(piece) for piece in pieces]
    order = sorted(range(len(pieces)), key=lambda place: sizes[place] * newest_first[place])
    ids = [words.record_id for words in facts.words]
    left = _Left("message of the person's", "messages of the person's", facts.left_words, where)
    text, chosen = _fitted(WORDS_TITLE, pieces, order, tokens, left=left, ids=ids)
    return Shown(
        text,
        Facts(
            words=tuple(facts.words[place] for place in chosen),
            left_words=facts.left_words + len(pieces) - len(chosen),
        ),
    )


def show_deeds(facts: Facts, tokens: int, *, where: str = "") -> Shown:
    """One line a call, in order, within so many tokens; the oldest go first, files and errors last."""
    pieces = [_done(deed) for deed in facts.deeds]
    ids = [deed.id for deed in facts.deeds]
    left = _Left("call", "calls", facts.left_deeds, where)
    text, chosen = _fitted(DEEDS_TITLE, pieces, _by_worth(facts.deeds), tokens, left=left, ids=ids)
    return Shown(
        text,
        Facts(
            deeds=tuple(facts.deeds[place] for place in chosen),
            left_deeds=facts.left_deeds + len(pieces) - len(chosen),
        ),
    )


def together(words: Shown, deeds: Shown) -> Facts:
    """All that is known once both were shown."""
    return Facts(
        words=words.facts.words,
        deeds=deeds.facts.deeds,
        left_words=words.facts.left_words,
        left_deeds=deeds.facts.left_deeds,
    )


@dataclass(frozen=True, slots=True)
class _Left:
    """How to point to what has no room."""

    one: str
    many: str
    before: int
    """Left out by earlier compactions."""
    where: str

    def line(self, ids: Sequence[str]) -> str:
        """None at all is said with no words."""
        count = self.before + len(ids)
        if not count:
            return ""
        place = f", in {self.where}" if self.where else ""
        span = f" (ids {ids[0]} to {ids[-1]})" if len(ids) > 1 else f" (id {ids[0]})" if ids else ""
        what, verb = (self.one, "is") if count == 1 else (self.many, "are")
        return f"{count:,} more {what} {verb} not shown here{place}{span}."


def _fitted(
    title: str, pieces: Sequence[str], order: Iterable[int], tokens: int, *, left: _Left, ids: Sequence[str]
) -> tuple[str, list[int]]:
    """As many pieces as there is room for, chosen in the one order and shown in the other."""
    if not pieces and not left.before:
        return "", []
    # The longest pointer there can be; whichever ids it names in the end, they are no longer than these.
    longest = max(ids, key=len, default="")
    room = tokens - _size(title) - (_size(left.line([longest] * len(ids))) if ids or left.before else 0)
    chosen: set[int] = set()
    for place in order:
        size = _size(pieces[place])
        if size <= room:
            chosen.add(place)
            room -= size
    hidden = [one for place, one in enumerate(ids) if place not in chosen]
    lines = [title, *(pieces[place] for place in sorted(chosen)), left.line(hidden)]
    text = "\n".join(line for line in lines if line)
    return (text, sorted(chosen)) if room >= 0 else ("", [])


def _size(piece: str) -> int:
    # Joined, a piece that begins and ends like JSON is no JSON any more, and is taken for text.
    return estimate_text(piece) + NEWLINE_TOKENS


def _said(number: int, words: Words) -> str:
    """On its own line, or between fences that do not occur in it: nothing in it can pass for another's."""
    if not LINE_ENDS.search(words.text):
        return f"{number}. {words.text}"
    runs = re.findall(f"{FENCE}+", words.text)
    fence = FENCE * max(MIN_FENCE, 1 + max(map(len, runs), default=0))
    return f"{number}.\n{fence}\n{words.text}\n{fence}"


def _done(deed: Deed) -> str:
    line = LINE_ENDS.sub(" ", deed.line if deed.tool else f"> {deed.line}")
    return f"- {line} !! {LINE_ENDS.sub(' ', deed.outcome)}" if deed.outcome else f"- {line}"


def _by_worth(deeds: Sequence[Deed]) -> list[int]:
    """What to show first: changes and failures, then the rest, the newest of each; never the same twice."""
    seen: set[tuple[str, str]] = set()
    ranks: list[tuple[int, int, int]] = []
    for place in range(len(deeds) - 1, -1, -1):
        deed = deeds[place]
        is_again = (deed.line, deed.outcome) in seen
        seen.add((deed.line, deed.outcome))
        ranks.append((is_again, not (deed.kind == "edit" or deed.outcome), -place))
    return [-rank[2] for rank in sorted(ranks)]
