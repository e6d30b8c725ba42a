"""An inbox looked at by somebody else than its owner."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nacre.errors import MailError
from nacre.layers.l7_mail.letter import Letter
from nacre.layers.l7_mail.mailbox import Mailbox, MailboxContent, peek

FIRST = Letter(
    id="1", sender="main", to="reviewer", text="Look.", summary="Look.", at=datetime(2026, 1, 1, tzinfo=UTC)
)
SECOND = replace(FIRST, id="2", text="Look again.")


def test_what_waits_is_told_from_what_was_received_and_nothing_moves(tmp_path: Path) -> None:
    """A3: the owner gets every letter as if nobody had looked."""
    path = tmp_path / "inboxes" / "reviewer.jsonl"
    assert peek(path) == MailboxContent()
    box = Mailbox(path)
    box.put(FIRST)
    box.settle(box.waiting().position)
    box.put(SECOND)
    with path.open("ab") as file:
        file.write(b"no letter\n")
    before = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    assert peek(path) == peek(path) == MailboxContent((FIRST,), (SECOND,), 1)
    assert {each.name: each.read_bytes() for each in path.parent.iterdir()} == before
    assert Mailbox(path).waiting().letters == (SECOND,)


def test_a_letter_that_stands_twice_is_shown_once_and_half_a_line_not_at_all(tmp_path: Path) -> None:
    """A5: at least once on disk, once for whoever reads."""
    path = tmp_path / "reviewer.jsonl"
    box = Mailbox(path)
    for letter in (FIRST, SECOND, FIRST):
        box.put(letter)
    with path.open("ab") as file:
        file.write(b'{"id": "3", "from"')
    assert peek(path) == MailboxContent((), (FIRST, SECOND), 0)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """A4: nobody can have another file shown as an inbox."""
    (tmp_path / "secret").write_text("words\n")
    (tmp_path / "reviewer.jsonl").symlink_to(tmp_path / "secret")
    with pytest.raises(MailError, match="symlink"):
        peek(tmp_path / "reviewer.jsonl")
    with pytest.raises(MailError, match="no inbox"):
        peek(tmp_path / "secret")
