"""Letters for tests, and hypothesis strategies for any that may be sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from nacre.layers.l7_mail.inbox import Inbox
from nacre.layers.l7_mail.letter import RESPONSES, Kind, Letter

AT = datetime(2026, 1, 1, tzinfo=UTC)

NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,20}", fullmatch=True).filter(lambda name: name not in TAKEN)
TAKEN = {
    "user",
    "human",
    "person",
    "system",
    "assistant",
    "tool",
    "everyone",
    "all",
    "con",
    "prn",
    "aux",
    "nul",
}
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=300)
"""Lone surrogates, controls and separators of lines included."""


def letter(number: int | str = 0, text: str = "", *, sender: str = "ann", to: str = "bob") -> Letter:
    return Letter(id=f"id-{number}", sender=sender, to=to, text=text or f"letter {number}", at=AT)


@st.composite
def sound_letters(draw: st.DrawFn) -> Letter:
    """Any letter that may be sent."""
    kind: Kind = draw(
        st.sampled_from(["text", "shutdown_request", "shutdown_response", "plan_approval_response"])
    )
    text = draw(ANY_TEXT)
    return Letter(
        id=draw(st.from_regex(r"[A-Za-z0-9._-]{1,100}", fullmatch=True)),
        sender=draw(NAMES | st.just("uds:/run/a.sock") | st.just("bridge:7")),
        to=draw(NAMES),
        text=text if text.strip() else f"{text}words",
        summary=draw(ANY_TEXT),
        kind=kind,
        approves=draw(st.booleans()) if kind in RESPONSES else None,
        answers=draw(st.sampled_from(["", "id-1"])),
        at=AT + timedelta(milliseconds=draw(st.integers(0, 10**11))),
    )


def texts(inbox: Inbox, known: tuple[str, ...] = ()) -> list[str]:
    return [one.text for one in inbox.waiting(known).letters]


def receive(inbox: Inbox) -> list[str]:
    """Look and settle, as often as there is more."""
    found: list[str] = []
    while True:
        seen = inbox.waiting()
        found += [one.text for one in seen.letters]
        inbox.settle(seen.position)
        if not seen.has_more:
            return found
