"""What a request reads from the cache follows from the requests before it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from nacre.cache.models import profile
from nacre.loop.round import message_record
from nacre.messages.blocks import Block, Message, Text, Thinking, ToolCall, ToolResult
from nacre.messages.events import Reply
from nacre.messages.records import Noted, Record, ReplyFacts, Said
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.session.base_change import BASE, Base, base_key
from nacre.session.cached_prefixes import RECENT_REQUESTS, CachedPrefixes
from nacre.session.session import Session
from nacre.testing import FrozenClock

BOUNDARIES = "gpt-6-sol"
INTERVALS = "gpt-5.4"
STRIPS = "gpt-5.3-codex"
CLOCK = FrozenClock()
HEAD = 2_000
"""Tokens of system prompt and tools."""


def asked(*blocks: Block | str) -> Said:
    parts = tuple(Text(one) if isinstance(one, str) else one for one in blocks)
    return message_record("user", parts, CLOCK)


def replied(name: str, *blocks: Block, prompt: int = 1) -> Said:
    facts = ReplyFacts(id=name, usage=Usage(input=prompt))
    return Said(
        id=CLOCK.new_id(), at=CLOCK.now(), role="assistant", blocks=blocks or (Text(name),), reply=facts
    )


def read(sent: CachedPrefixes, view: View, model: str, *, base: str = "base", after: float = 1.0) -> int:
    now = CLOCK.now() + timedelta(seconds=after)
    return sent.read_tokens(base, view, profile(model), now=now, head=HEAD)


def test_the_longest_earlier_request_is_read_until_it_expires() -> None:
    sent = CachedPrefixes(())
    first = View.of([asked("one")])
    second = first.after(replied("a"), asked("two"))
    sent.add("base", first, 4_000, CLOCK.now())
    assert read(sent, second, BOUNDARIES) == 4_000
    sent.add("base", second, 6_000, CLOCK.now() + timedelta(seconds=1_000))
    assert read(sent, second.after(replied("b"), asked("three")), BOUNDARIES) == 6_000
    another = first.after(replied("a"), asked("something else"))
    assert read(sent, another, BOUNDARIES, after=2_000) == 4_000, "the second request renewed the first"
    assert read(sent, another, BOUNDARIES, after=4_000) == 0
    assert read(sent, another, BOUNDARIES, base="other tools") == 0
    assert read(sent, View.of([asked("another conversation")]), BOUNDARIES) == 0


def test_a_message_that_was_continued_is_read_only_where_any_place_can_be() -> None:
    sent = CachedPrefixes(())
    first = asked("one")
    unanswered = View.of([first, replied("a"), asked("two")])
    sent.add("base", View.of([first]), 3_000, CLOCK.now())
    sent.add("base", unanswered, 4_000, CLOCK.now())
    continued = unanswered.after(asked("and three"))
    assert read(sent, continued, BOUNDARIES) == 3_000
    assert read(sent, continued, INTERVALS) == 4_000 // 128 * 128
    results = View.of(
        [first, replied("b", ToolCall("t", "Read", {})), asked(ToolResult("t", (Text("text"),)))]
    )
    sent.add("base", results, 5_000, CLOCK.now())
    assert read(sent, results.after(asked("stop")), BOUNDARIES) == 5_000, "results are messages of their own"


def test_system_prompt_and_tools_are_read_where_any_place_can_be() -> None:
    sent = CachedPrefixes(())
    assert read(sent, View.of([asked("one")]), INTERVALS) == 0
    sent.add("base", View.of([asked("one")]), 4_000, CLOCK.now())
    assert read(sent, View.of([asked("other")]), INTERVALS) == HEAD // 128 * 128
    assert read(sent, View.of([asked("other")]), BOUNDARIES) == 0


@pytest.mark.parametrize(("model", "tokens"), [(BOUNDARIES, 5_000), (STRIPS, 4_000 // 128 * 128)])
def test_thinking_that_is_no_longer_shown_ends_what_can_be_read(model: str, tokens: int) -> None:
    sent = CachedPrefixes(())
    first = View.of([asked("one")])
    results = first.after(
        replied("a", Thinking("hm", "s"), ToolCall("t", "Read", {})), asked(ToolResult("t", (Text("text"),)))
    )
    sent.add("base", first, 4_000, CLOCK.now())
    sent.add("base", results, 5_000, CLOCK.now())
    assert read(sent, results, model) >= 5_000 // 128 * 128, "in the same turn it is shown"
    assert read(sent, results.after(replied("b"), asked("two")), model) == tokens
    assert read(sent, results.after(asked("stop")), model) == tokens


def test_a_part_of_any_recent_request_is_read_where_any_place_can_be() -> None:
    """A conversation comes back after a rewind or an undone compaction, with another end."""
    page = asked("one line of a long page\n" * 400)
    whole = View.of([page, replied("a"), asked("two")])
    sent = CachedPrefixes(())
    sent.add("base", whole, 4_500, CLOCK.now())
    sent.add("base", View.of([asked("a summary")]), 2_100, CLOCK.now())
    again = View.of([page, replied("a"), asked("three")])
    assert 4_200 < read(sent, again, INTERVALS) <= 4_500
    assert read(sent, again, INTERVALS, after=400) == 0
    assert read(sent, again, BOUNDARIES) == 0
    for number in range(RECENT_REQUESTS):
        sent.add("base", View.of([asked(f"summary {number}")]), 2_100, CLOCK.now())
    assert read(sent, again, INTERVALS) == HEAD // 128 * 128


def test_equal_blocks_behind_thinking_that_is_shown_once_are_not_read() -> None:
    words = "one line of a long file\n" * 400
    result = asked(ToolResult("t", (Text(words),)))
    thinks = replied("a", Thinking("", "s"), ToolCall("t", "Read", {}))
    first = View.of([asked("one")])
    results = first.after(thinks, result)
    sent = CachedPrefixes(())
    sent.add("base", first, 4_000, CLOCK.now())
    sent.add("base", results, 6_400, CLOCK.now())
    asked_again = results.after(replied("b"), asked("two"))
    assert read(sent, asked_again, STRIPS) == 4_000 // 128 * 128, "the next turn does not show it"
    assert read(sent, asked_again, INTERVALS) == 6_400 // 128 * 128
    sent.add("base", asked_again, 6_300, CLOCK.now())
    rewound = results.after(replied("c", ToolCall("u", "Read", {})), asked(ToolResult("u", (Text("other"),))))
    assert read(sent, rewound, STRIPS) == 6_400 // 128 * 128
    other = CachedPrefixes(())
    other.add("base", first, 4_000, CLOCK.now())
    other.add("base", asked_again, 6_300, CLOCK.now())
    assert read(other, rewound, STRIPS) == 4_000 // 128 * 128, "only the request that is asked for shows it"


def test_thinking_that_two_requests_do_not_show_is_not_counted_as_read() -> None:
    first = View.of([asked("one")])
    answered = first.after(
        replied("a", Thinking("thought " * 2_000, "s"), ToolCall("t", "Read", {})),
        asked(ToolResult("t", (Text("one line of a long file\n" * 400),))),
        replied("b"),
    )
    sent = CachedPrefixes(())
    sent.add("base", first, 4_000, CLOCK.now())
    sent.add("base", answered.after(asked("two")), 6_300, CLOCK.now())
    assert 6_100 < read(sent, answered.after(asked("two, in other words")), STRIPS) <= 6_400


async def test_a_resumed_session_knows_the_requests_of_its_log() -> None:
    base = Base(BOUNDARIES, "system")
    live = Session(base, clock=CLOCK)
    for number in range(3):
        await live.add_user(f"question {number}")
        await live.prepare()
        usage = Usage(cache_write=2_000 + number)
        await live.record(Reply(message=Message("assistant", (Text("a"),)), usage=usage, id=f"r{number}"))
    records: list[Record] = list(live.transcript.records)
    assert [one.kind for one in records if isinstance(one, Noted)] == [BASE]
    resumed = CachedPrefixes(records)
    view = View.of([*records, asked("next")])
    assert read(resumed, view, BOUNDARIES, base=base_key(base.facts)) == 2_002
    page = asked("one line of a long page\n" * 400)
    busy = CachedPrefixes(records)
    for number in range(RECENT_REQUESTS - 1):
        busy.add("base", View.of([asked(f"question {number}")]), 2_100, CLOCK.now())
    busy.add("base", View.of([page, replied("a"), asked("two")]), 4_500, CLOCK.now())
    part = View.of([page, replied("a"), asked("three")])
    assert read(busy, part, INTERVALS) > 4_200, "the log does not displace what was sent since"
    again = Session(base, records, clock=CLOCK)
    assert again.unfinished_input(view).cache_read == min(2_002, again.count_tokens(view))
    assert again.unfinished_input(view).cache_write == 0, "what was sent once is in the cache"
