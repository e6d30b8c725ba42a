"""When requests were made, read off a log."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from nacre.messages.blocks import Text
from nacre.messages.records import ReplyFacts, Said
from nacre.messages.rounds import asked_at

START = datetime(2026, 1, 1, tzinfo=UTC)


def said(seconds: int, *, reply: str | None = None) -> Said:
    words = Said(id=f"r{seconds}", at=START + timedelta(seconds=seconds), role="user", blocks=(Text("x"),))
    return replace(words, role="assistant", reply=ReplyFacts(id=reply)) if reply else words


def test_a_reply_of_several_records_was_asked_for_once_with_the_words_before_it() -> None:
    """C9: an entry of the cache lives from the start of the request."""
    log = [said(0), said(5, reply="a"), said(6), said(9, reply="a"), said(20), said(31, reply="b")]
    assert [(one.id, (at - START).seconds) for one, at in asked_at(log)] == [("r5", 0), ("r31", 20)]


def test_what_was_said_aside_was_asked_of_nobody_here() -> None:
    log = [said(0), replace(said(3, reply="a"), aside="sidechain"), said(8, reply="b")]
    assert [one.id for one, _ in asked_at(log)] == ["r8"]


def test_a_log_that_begins_with_a_reply_has_no_better_time_than_its_own() -> None:
    assert [at for _, at in asked_at([said(4, reply="a")])] == [START + timedelta(seconds=4)]
