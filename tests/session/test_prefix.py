"""The books on a session's prefix: what moved without a record is found, what was announced is not (C32)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from nacre.errors import PrefixMoved
from nacre.messages.blocks import Message, Text, ToolCall, ToolResult
from nacre.messages.events import Reply
from nacre.messages.records import Change, Compacted, Record, Replaced, ResultOf, Said, Undone
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.base import Request
from nacre.session.fit import WindowState
from nacre.session.layer import Layer
from nacre.session.session import Base, Session
from nacre.session.settings import SessionSettings
from nacre.testing import FrozenClock

MODEL = "claude-opus-5-5"
LIFETIME = 300.0


def session(clock: FrozenClock, *, strict: bool = False, ttl: str = "5m") -> Session:
    settings = SessionSettings(strict_prefix=strict, cache_ttl=ttl)  # type: ignore[arg-type]
    return Session(Base(MODEL, "system", []), settings=settings, clock=clock)


def reply(text: str, *, read: int = 0, call: ToolCall | None = None) -> Reply:
    blocks = (Text(text), *((call,) if call else ()))
    return Reply(message=Message("assistant", blocks), usage=Usage(cache_read=read, cache_write=10), id=text)


async def talk(one: Session, *reads: int) -> None:
    """A turn for each figure of cache reads."""
    for number, read in enumerate(reads):
        await one.add_user(f"question {number}")
        await one.prepare()
        await one.record(reply(f"answer {number} {one.clock.new_id()}", read=read))


def rewritten(view: View) -> View:
    """A view whose first words are others, and no record says why: what a bug would make."""
    first, *rest = view.records
    assert isinstance(first, Said)
    return View.of([replace(first, blocks=(Text("other words"),)), *rest])


async def test_a_prefix_that_moved_without_a_record_raises_where_that_is_wanted(clock: FrozenClock) -> None:
    """C32: the block is named."""
    one = session(clock, strict=True)
    await talk(one, 0)
    await one.add_user("next")
    with pytest.raises(PrefixMoved, match=r"messages\[0\]\.content\[0\].*no record announced it"):
        one.start_request(rewritten(one.view))


async def test_in_use_a_prefix_that_moved_is_told_once_and_the_session_goes_on(clock: FrozenClock) -> None:
    """C32: warns in use."""
    one = session(clock)
    await talk(one, 0)
    await one.add_user("next")
    one.start_request(rewritten(one.view))
    (warning,) = lines(one)
    assert "the cached prefix was lost: messages[0].content[0]" in warning
    assert lines(one) == []


async def test_a_view_that_lost_its_end_is_found_too(clock: FrozenClock) -> None:
    """C32: what was sent and is missing now."""
    one = session(clock, strict=True)
    await talk(one, 0)
    await one.add_user("next")
    one.start_request(one.view)
    with pytest.raises(PrefixMoved, match="is missing"):
        one.start_request(View.of(one.view.records[:1]))


async def test_another_model_in_mid_session_is_found(clock: FrozenClock) -> None:
    """C32: caches are per model."""
    one = session(clock, strict=True)
    await talk(one, 0)
    one.base = Base("claude-sonnet-5-5", one.base.system, one.base.tools, opening=one.base.opening)
    await one.add_user("next")
    with pytest.raises(PrefixMoved, match="model"):
        one.start_request(one.view)


async def test_asking_for_a_request_changes_no_books(clock: FrozenClock) -> None:
    """C32: a dry run changes neither."""
    one = session(clock, strict=True)
    await talk(one, 0)
    one.request(rewritten(one.view))
    await talk(one, 0)
    assert lines(one) == []


async def test_reads_that_fall_for_no_reason_are_reported(clock: FrozenClock) -> None:
    """C32: by more than 5 % and more than 2,000 tokens."""
    one = session(clock)
    await talk(one, 50_000, 20_000)
    assert lines(one) == ["cache reads fell from 50000 to 20000 tokens without an announced reason"]
    await talk(one, 20_000, 18_500)
    assert lines(one) == []
    await talk(one, 100_000, 96_000)
    assert lines(one) == []


class LetsClear(Layer):
    def finish_request(self, request: Request, view: View) -> Request:
        return replace(request, options={"context_management": {}})


async def test_what_a_provider_may_clear_by_itself_is_no_loss(clock: FrozenClock) -> None:
    """C32: it was asked to; bytes of ours that moved are found even so."""
    one = session(clock)
    one.add_layers(LetsClear())
    await talk(one, 50_000, 20_000)
    assert lines(one) == []
    await one.add_user("next")
    one.start_request(rewritten(one.view))
    assert len(lines(one)) == 1


@pytest.mark.parametrize(("ttl", "lifetime"), [("5m", 300.0), ("1h", 3_600.0)])
async def test_a_cache_that_had_time_to_go_cold_is_no_surprise(
    clock: FrozenClock, ttl: str, lifetime: float
) -> None:
    """C32, C9: a pause as long as the cache lives announces itself."""
    one = session(clock, ttl=ttl)
    await talk(one, 50_000)
    clock.advance(lifetime)
    await talk(one, 0)
    assert lines(one) == []
    await talk(one, 50_000)
    clock.advance(lifetime - 1)
    await talk(one, 0)
    assert len(lines(one)) == 1


class Shrinks(Layer):
    """Returns the given records, once."""

    def __init__(self, *records: Record) -> None:
        self.records = list(records)

    def can_shrink(self, view: View, state: WindowState) -> bool:
        return bool(self.records)

    async def shrink(self, view: View, state: WindowState) -> Sequence[Record]:
        acted, self.records = self.records, []
        return acted


def compaction(clock: FrozenClock) -> Compacted:
    return Compacted(id="b", at=clock.now(), summary=(Text("in short"),), summary_id="s")


async def test_a_compaction_is_announced_and_sets_the_reads_to_none(clock: FrozenClock) -> None:
    """C32: the usage baseline is none afterwards, so a small figure is no fall."""
    one = session(clock, strict=True)
    await talk(one, 50_000)
    one.add_layers(Shrinks(compaction(clock)))
    await talk(one, 0)
    assert one.view.epochs == ("compact",)
    assert lines(one) == []
    await talk(one, 30_000, 0)
    assert len(lines(one)) == 1


async def test_undoing_a_compaction_is_announced_too(clock: FrozenClock) -> None:
    """C23, C32."""
    one = session(clock, strict=True)
    await talk(one, 50_000)
    await one.transcript.append(compaction(clock))
    await talk(one, 5_000)
    await one.transcript.append(Undone(id="u", at=clock.now(), target="b"))
    await talk(one, 0)
    assert one.view.epochs == ("compact", "undo")
    assert lines(one) == []


async def test_a_clear_is_announced_and_skips_one_check_only(clock: FrozenClock) -> None:
    """C32: a clear skips the next check."""
    one = session(clock, strict=True)
    await one.add_user("read it")
    await one.prepare()
    await one.record(reply("reading", read=50_000, call=ToolCall("c1", "Read", {})))
    await one.add_results([ToolResult("c1", (Text("x" * 9_000),))])
    await one.prepare()
    await one.record(reply("seen", read=50_000))
    cleared = Change(ResultOf("c1"), (ToolResult("c1", (Text("[cleared]"),)),))
    one.add_layers(Shrinks(Replaced(id="r", at=clock.now(), changes=(cleared,), reason="clear")))
    await talk(one, 10_000)
    assert one.view.epochs == ("clear",)
    assert lines(one) == []
    await talk(one, 0)
    assert len(lines(one)) == 1


async def test_a_rewrite_of_what_was_never_sent_costs_nothing(clock: FrozenClock) -> None:
    """C32: the next request after a new start has nothing to be compared with."""
    one = session(clock, strict=True)
    await one.add_user("first")
    await one.transcript.append(compaction(clock))
    await talk(one, 0)
    assert lines(one) == []


def lines(one: Session) -> list[str]:
    return [notice.text for notice in one.notices()]
