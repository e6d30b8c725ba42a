"""Any log, any draft, any room: what stands after a compaction is a valid request with the person's words."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre.layers.l4_compact.install import (
    STANDING,
    CompactionLimits,
    RoomShares,
    SummaryMaterial,
    divide_room,
    install,
)
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.layers.l4_compact.policy import room as room_for
from nacre.messages.blocks import Image, JsonObject, Text, Thinking, ToolCall, ToolResult
from nacre.messages.draft import Draft, Fragment, ItemSpan
from nacre.messages.facts import FACTS, Facts
from nacre.messages.records import BlockOf, Compacted, Noted, Record, Replaced, ReplyFacts, Said
from nacre.messages.rounds import cuts
from nacre.messages.view import View
from nacre.testing import FrozenClock
from tests.messages.strategies import logs
from tests.scale import scaled

CLOCK = FrozenClock()
SMALL = CompactSettings(tail_tokens=300, words_tokens=200, past_tokens=400)
RULES = Draft(kind="rules")


def user(name: str, text: str) -> Said:
    return Said(id=name, at=CLOCK.now(), role="user", blocks=(Text(text),))


def called(name: str, call_id: str, *, path: str = "src/a.py") -> Said:
    blocks = (ToolCall(call_id, "Read", {"file_path": path}),)
    return Said(id=name, at=CLOCK.now(), role="assistant", blocks=blocks, reply=ReplyFacts(id=name))


def results(name: str, call_id: str, text: str) -> Said:
    return Said(id=name, at=CLOCK.now(), role="user", blocks=(ToolResult(call_id, (Text(text),)),))


def conversation(turns: int, *, size: int = 400) -> list[Record]:
    records: list[Record] = []
    for n in range(turns):
        records += [
            user(f"u{n}", f"rule {n}: never touch generated/{n}"),
            called(f"a{n}", f"c{n}", path=f"src/part_{n}.py"),
            results(f"r{n}", f"c{n}", "x = 1\n" * (size // 6)),
        ]
    return records


def rounds_of_work(count: int, *, name: str = "x") -> list[Record]:
    records: list[Record] = []
    for n in range(count):
        call = f"{name}c{n}"
        records += [called(f"{name}a{n}", call), results(f"{name}r{n}", call, "a line\n" * 60)]
    return records


def compacted(
    records: list[Record], draft: Draft = RULES, *, room: int = 1_000, span: ItemSpan | None = None
) -> tuple[View, RoomShares, Compacted]:
    view = View.of(records)
    facts = Facts.of(view.records)
    terms = CompactionLimits(room=room, settings=SMALL, span=span or ItemSpan())
    shares = divide_room(view, draft, facts, terms)
    note = Noted(id=CLOCK.new_id(), at=CLOCK.now(), kind=FACTS, facts=shares.facts.as_json())
    made = install(
        view, draft, shares, SummaryMaterial(carries=[note]), summary_id=CLOCK.new_id(), clock=CLOCK
    )
    record = made[-1]
    assert isinstance(record, Compacted)
    return view.after(*made), shares, record


def words_of(view: View) -> str:
    return "\n".join(
        str(block.get("text", ""))
        for message in view.messages
        for block in message["content"]  # type: ignore[union-attr]
        if isinstance(block, dict)
    )


def ids(message: JsonObject, kind: str, name: str) -> list[str]:
    content = message["content"]
    assert isinstance(content, list)
    return sorted(str(one[name]) for one in content if isinstance(one, dict) and one["type"] == kind)


def is_blanked(record_id: str, records: list[Record]) -> bool:
    """Whether a block of this message was taken out by itself; what was, need not come back."""
    changes = [change for record in records if isinstance(record, Replaced) for change in record.changes]
    return any(isinstance(one.at, BlockOf) and one.at.record_id == record_id for one in changes)


def is_valid(view: View) -> bool:
    """T6: roles alternate, the user is first and last, every call has its result in the next message."""
    messages = view.messages
    roles = [message["role"] for message in messages if message["role"] != "system"]
    if not messages:
        return True
    if roles[0] != "user" or any(a == b for a, b in pairwise(roles)):
        return False
    for message, answer in zip(messages, [*messages[1:], None], strict=True):
        calls = ids(message, "tool_use", "id")
        if message["role"] == "assistant" and calls != (
            ids(answer, "tool_result", "tool_use_id") if answer else []
        ):
            return False
    return True


@pytest.mark.slow
@given(records=logs(), room=st.integers(0, 2_000), covers=st.integers(0, 30), kind=st.booleans())
@settings(max_examples=scaled(300))
def test_any_log_and_any_room_give_a_valid_request(
    records: list[Record], room: int, covers: int, kind: bool
) -> None:
    """C16, C20, C21, T6: pairs stay whole, roles alternate, and replaying the log gives the same view."""
    before = View.of(records)
    known = before.items[covers % len(before.items)].record_id if before.items else None
    draft = Draft(kind="full", text="A summary.", covers=known) if kind else RULES
    after, shares, record = compacted(records, draft, room=room)
    assert is_valid(after)
    assert View.of(after.records) == after
    assert shares.place in cuts(before.items)
    facts = Facts.of(before.records)
    if facts.words and not is_blanked(facts.words[-1].record_id, records):
        assert all(piece in words_of(after) for piece in facts.words[-1].text.split("\n\n"))
    if kind and known is not None:
        later = [item.record_id for item in before.items]
        place = max(n for n, one in enumerate(later) if one == known)
        kept = set(later[shares.place :])
        assert set(later[place + 1 :]) <= kept
    assert Facts.of(after.records).words[-1:] == facts.words[-1:]
    assert isinstance(record.carries[0], Noted)


@given(records=logs(), first=st.integers(1, 20), room=st.integers(0, 2_000))
@settings(max_examples=scaled(150))
def test_what_stands_before_the_span_stays_byte_for_byte(
    records: list[Record], first: int, room: int
) -> None:
    """C23: the prefix of a partial compaction, and with it the cache, is left alone."""
    before = View.of(records)
    places = [cut for cut in cuts(before.items) if 0 < cut < len(before.items)]
    if not places:
        return
    place = places[first % len(places)]
    after, _, _ = compacted(records, room=room, span=ItemSpan(first=place))
    assert is_valid(after)
    ahead = [item.record_id for item in before.items[:place]]
    assert [item.record_id for item in after.items[:place]] == ahead


@pytest.mark.parametrize(
    ("threshold", "room"), [(83_000, 34_000), (95_000, 40_000), (167_000, 40_000), (967_000, 40_000)]
)
def test_what_stands_is_half_of_the_room_and_no_more_in_a_larger_window(threshold: int, room: int) -> None:
    """C21."""
    assert room_for(threshold=threshold, base=15_000, ratio=1.0, settings=CompactSettings()) == room
    assert room_for(threshold=threshold, base=15_000, ratio=2.0, settings=CompactSettings()) == room // 2


@pytest.mark.parametrize("room", [800, 1_600, 3_200])
def test_what_stands_fits_its_room(room: int) -> None:
    """C21: summary, words, actions and tail together."""
    after, shares, _ = compacted(conversation(60), room=room)
    assert after.estimate <= room * 1.25
    assert shares.words
    assert shares.actions


def test_words_outlive_three_compactions_in_a_row() -> None:
    """C20: copied from the log each time, never through what a model made of them."""
    records = conversation(6)
    for n in range(3):
        after, _, _ = compacted(records, Draft(kind="full", text="Nothing of note."), room=2_000)
        records = [*after.records, *conversation(3)] if n == 0 else list(after.records)
    text = words_of(View.of(records))
    assert all(f"never touch generated/{n}" in text for n in range(6))


def test_the_last_message_is_raw_also_when_its_turn_is_longer_than_the_tail() -> None:
    """C20: with its pictures; and again when that turn is compacted a second time."""
    picture = Image({"type": "base64", "media_type": "image/png", "data": "aaaa"})
    last = Said(id="last", at=CLOCK.now(), role="user", blocks=(Text("do as this shows"), picture))
    records = [*conversation(5), last]
    for n in range(20):
        records += [called(f"x{n}", f"y{n}"), results(f"z{n}", f"y{n}", "a line\n" * 60)]
    after, shares, _ = compacted(records, room=800)
    assert shares.last[-2:] == (Text("do as this shows"), picture)
    again, more, _ = compacted([*after.records, called("q", "w"), results("e", "w", "b" * 900)], room=400)
    assert Text("do as this shows") in more.last
    assert is_valid(again)


def test_the_picture_of_a_long_turn_outlives_compactions_and_resuming_between_them() -> None:
    """C20: who resumes behind the first has no record of it but the summary."""
    picture = Image({"type": "base64", "media_type": "image/png", "data": "aaaa"})
    last = Said(id="last", at=CLOCK.now(), role="user", blocks=(Text("do as this shows"), picture))
    after, shares, record = compacted([*conversation(5), last, *rounds_of_work(20)], room=800)
    kept = [item.record_id for item in after.items[1:]]
    resumed = [*(one for one in after.records if one.id in kept), record]
    assert View.of(resumed).messages == after.messages
    for records in (list(after.records), resumed):
        _, more, _ = compacted([*records, *rounds_of_work(8, name="m")], room=600)
        assert more.last == shares.last


def test_a_message_that_is_nothing_but_a_picture_stays_with_the_words_before_it() -> None:
    """C20: the last message may have no words at all."""
    picture = Image({"type": "base64", "media_type": "image/png", "data": "aaaa"})
    shown = Said(id="shown", at=CLOCK.now(), role="user", blocks=(picture,))
    _, shares, _ = compacted([*conversation(5), user("u", "like this"), shown, *rounds_of_work(20)], room=800)
    assert shares.last[1:] == (Text("like this"), picture)


def test_results_in_the_record_of_the_last_message_are_no_part_of_it() -> None:
    """C20: other programs write answers and words into one record."""
    result = ToolResult("c", (Text("a line\n" * 4_000),))
    both = Said(id="both", at=CLOCK.now(), role="user", blocks=(result, Text("stop there")))
    after, shares, _ = compacted([*conversation(5), called("a", "c"), both, *rounds_of_work(20)], room=800)
    assert shares.last[1:] == (Text("stop there"),)
    assert shares.words
    assert after.estimate < 1_000


def test_what_a_wider_tail_shows_is_not_shown_once_more() -> None:
    """C17b, C20: lines about the past leave room, and the tail grows over what they were about."""
    records = conversation(12, size=60)
    after, shares, _ = compacted(records, room=600)
    assert 0 < shares.place < len(View.of(records).items)
    assert all(words_of(after).count(f"rule {n}: ") <= 1 for n in range(12))


def test_a_part_behind_an_earlier_summary_neither_shows_nor_counts_again_what_that_one_does() -> None:
    """C23, C20: that summary stands, with the words it shows and the number of those it does not."""
    first, _, _ = compacted(conversation(40), room=400)
    records = [*first.records, *(replace(one, id=f"{one.id}-later") for one in conversation(3))]
    before = Facts.of(records)
    assert before.left_words > 0
    place = next(n for n, item in enumerate(View.of(records).items) if item.record_id == "u0-later")
    after, _, _ = compacted(records, room=600, span=ItemSpan(first=place))
    known = Facts.of(after.records)
    assert len(known.words) + known.left_words == len(before.words) + before.left_words
    assert all(words_of(after).count(one.text) == 1 for one in before.words[:3])


def test_a_draft_made_ahead_leaves_all_that_it_does_not_know() -> None:
    """C28: what was said while it was made stays, whatever room it takes."""
    records = conversation(30)
    after, shares, _ = compacted(records, Draft(kind="full", text="So far.", covers="r20"), room=400)
    assert [item.record_id for item in after.items[1:]][:3] == ["u21", "a21", "r21"]
    assert len(View.of(records).items) - shares.place == 27


def test_what_a_draft_made_ahead_does_not_know_leaves_room_for_the_persons_words() -> None:
    """C20: a tail that takes more than there is must not make their rules go unmentioned."""
    records = conversation(30)
    after, shares, _ = compacted(records, Draft(kind="full", text="So far.", covers="r12"), room=1_600)
    assert sum(item.tokens for item in after.items[1:]) > 1_600
    assert "rule 12: never touch generated/12" in words_of(after)
    assert shares.facts.words


def test_thinking_that_is_bound_to_what_stood_before_goes_with_it() -> None:
    """C12b: no block of it may outlive the change of bytes ahead of it."""
    records = conversation(4)
    thought = Said(
        id="t",
        at=CLOCK.now(),
        role="assistant",
        blocks=(Thinking("hm", "sig"), Text("so")),
        reply=ReplyFacts(id="t"),
    )
    view = View.of([*records, user("u", "and?"), thought, user("v", "go on")])
    shares = divide_room(view, RULES, Facts.of(view.records), CompactionLimits(room=600, settings=SMALL))
    made = install(view, RULES, shares, SummaryMaterial(sent=view), summary_id="s", clock=CLOCK)
    assert "thinking" not in str(view.after(*made).messages)


def test_what_is_restored_stands_in_the_same_record() -> None:
    """C21: opening ahead of the summary, files behind it."""
    view = View.of(conversation(10))
    shares = divide_room(view, RULES, Facts.of(view.records), CompactionLimits(room=900, settings=SMALL))
    fragments = [
        Fragment(kind="file", name="a.py", text="file a.py"),
        Fragment(kind="opening", name="opening", text="be brief"),
    ]
    made = install(
        view,
        RULES,
        shares,
        SummaryMaterial(fragments=fragments, tasks="1. [ ] a"),
        summary_id="s",
        clock=CLOCK,
    )
    record = made[-1]
    assert isinstance(record, Compacted)
    texts = [one.text for one in record.summary if isinstance(one, Text)]
    assert (texts[0], texts[1], texts[-1]) == ("be brief", STANDING, "file a.py")
    assert "## Task list\n\n1. [ ] a" in texts[2]


def test_short_rules_have_room_however_tight_it_is() -> None:
    """C20: a long last message leaves nothing over, and a person's rules are still there."""
    view = View.of([*conversation(8), user("last", "a paste " * 400)])
    terms = CompactionLimits(room=300, settings=CompactSettings(tail_tokens=100))
    shares = divide_room(view, RULES, Facts.of(view.records), terms)
    assert "rule 0: never touch generated/0" in shares.words


def test_names_that_nothing_else_shows_outlive_compactions_within_the_room() -> None:
    """C20b: with where they occur; and again when the summary that lists them is compacted."""
    settings = CompactSettings(tail_tokens=2_000, past_tokens=1_000)
    text = "".join(f"        parse_{n} = 1\n" for n in range(40)) + "a line\n" * 200
    records: list[Record] = [user("u", "look"), called("a", "c"), results("r", "c", text)]
    records += conversation(40)
    for more in (0, 40):
        view = View.of([*records, *rounds_of_work(more)])
        limits = CompactionLimits(room=8_000, settings=settings)
        shares = divide_room(view, RULES, Facts.of(view.records), limits)
        note = Noted(id=CLOCK.new_id(), at=CLOCK.now(), kind=FACTS, facts=shares.facts.as_json())
        made = install(
            view, RULES, shares, SummaryMaterial(carries=[note]), summary_id=CLOCK.new_id(), clock=CLOCK
        )
        after = view.after(*made)
        assert "- src/a.py: parse_0, parse_1, " in words_of(after)
        assert after.estimate <= 8_000
        records = list(after.records)


def test_without_room_for_names_or_with_the_setting_off_there_is_no_index() -> None:
    """C20b: the heading alone would take what a call could have."""
    for room, names in ((1_000, 6_000), (8_000, 0)):
        view = View.of(conversation(60))
        limits = CompactionLimits(room=room, settings=CompactSettings(names_tokens=names))
        assert divide_room(view, RULES, Facts.of(view.records), limits).names == ""
