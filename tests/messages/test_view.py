"""The fold from records to what the model sees."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre.messages.blocks import Block, Json, JsonObject, Text, Thinking, ToolCall, ToolResult
from nacre.messages.pairing import CONTINUE, INTERRUPTED, OPENING, ItemPart, part
from nacre.messages.records import (
    BlockOf,
    Change,
    Compacted,
    Noted,
    Record,
    Replaced,
    ReplyFacts,
    ResultOf,
    Said,
    Undone,
)
from nacre.messages.usage import Usage
from nacre.messages.view import View
from tests.messages.strategies import logs, moment
from tests.scale import scaled


def user(name: str, *blocks: Block | str) -> Said:
    return Said(id=name, at=moment(0), role="user", blocks=_blocks(blocks))


def reply(name: str, *blocks: Block | str, of: str | None = None, usage: Usage | None = None) -> Said:
    facts = ReplyFacts(id=of or name, usage=usage)
    return Said(id=name, at=moment(0), role="assistant", blocks=_blocks(blocks), reply=facts)


def _blocks(blocks: tuple[Block | str, ...]) -> tuple[Block, ...]:
    return tuple(Text(block) if isinstance(block, str) else block for block in blocks)


def call(call_id: str) -> ToolCall:
    return ToolCall(call_id, "Read", {"file_path": call_id})


def result(call_id: str, text: str = "ok") -> ToolResult:
    return ToolResult(call_id, (Text(text),))


def shape(view: View) -> list[str]:
    """The messages as short strings: role, then each block's words or ids."""
    rows = []
    for message in view.messages:
        assert isinstance(message["content"], list)
        words = []
        for block in message["content"]:
            assert isinstance(block, dict)
            match block["type"]:
                case "text":
                    words.append(str(block["text"]))
                case "tool_use":
                    words.append(f"call {block['id']}")
                case "tool_result":
                    words.append(f"{block['tool_use_id']}={block['content']}")
                case other:
                    words.append(str(other))
        rows.append(f"{message['role']}: {' | '.join(words)}")
    return rows


def assert_valid(view: View) -> None:
    """What a provider demands of any request (T6)."""
    messages = view.messages
    if not messages:
        return
    roles = [str(message["role"]) for message in messages]
    assert roles[0] == "user"
    assert roles[-1] != "assistant"
    spoken = [role for role in roles if role != "system"]
    assert all(a != b for a, b in itertools.pairwise(spoken))
    assert all(roles[i - 1] == "user" for i, role in enumerate(roles) if role == "system")
    for i, message in enumerate(messages):
        content = message["content"]
        assert isinstance(content, list)
        assert content
        calls = [b["id"] for b in content if isinstance(b, dict) and b["type"] == "tool_use"]
        results = [b["tool_use_id"] for b in content if isinstance(b, dict) and b["type"] == "tool_result"]
        kinds = [b["type"] for b in content if isinstance(b, dict)]
        assert kinds[: len(results)] == ["tool_result"] * len(results), "results stand first"
        assert not (calls and roles[i] != "assistant")
        if calls:
            following = messages[i + 1]["content"]
            assert isinstance(following, list)
            answered = [
                b["tool_use_id"] for b in following if isinstance(b, dict) and b["type"] == "tool_result"
            ]
            assert sorted(map(str, answered)) == sorted(map(str, calls))
        elif results:
            assert i > 0
        assert not any(
            b["type"] == "text" and not str(b["text"]).strip() for b in content if isinstance(b, dict)
        )
    calls_made = [b["id"] for m in messages for b in m["content"] if b["type"] == "tool_use"]  # type: ignore[union-attr,index,call-overload]
    assert len(calls_made) == len(set(calls_made))


@given(logs())
@settings(max_examples=scaled(400))
def test_any_log_folds_to_a_valid_request(records: list[Record]) -> None:
    """T6: pairing, roles and order hold whatever the log says."""
    assert_valid(View.of(records))


@given(logs())
@settings(max_examples=scaled(300))
def test_folding_the_whole_log_equals_folding_it_live(records: list[Record]) -> None:
    """T3: resume is replay."""
    live = View()
    for record in records:
        live = live.after(record)
        assert list(live.links) == live.chain
    whole = View.of(records)
    assert whole == live
    assert json.dumps(whole.messages) == json.dumps(live.messages)
    assert whole.problems == live.problems


@given(logs(rewrites=False))
@settings(max_examples=scaled(300))
def test_what_was_sealed_never_changes_while_records_are_only_said(records: list[Record]) -> None:
    """T3: inside an epoch the sealed messages only grow."""
    view = View()
    for record in records:
        later = view.after(record)
        assert list(later.sealed[: len(view.sealed)]) == list(view.sealed)
        view = later


@given(logs(), logs())
@settings(max_examples=scaled(200))
def test_a_fork_does_not_disturb_the_view_it_came_from(trunk: list[Record], branch: list[Record]) -> None:
    """T3: views share one body; a diverging one copies first."""
    parent = View.of(trunk)
    before = json.dumps(parent.messages)
    child_a = parent.after(*branch)
    child_b = parent.after(user("other", "other"))
    assert json.dumps(parent.messages) == before
    assert child_a == View.of([*trunk, *branch])
    assert child_b == View.of([*trunk, user("other", "other")])


def test_records_of_one_reply_with_results_in_between_become_one_message() -> None:
    """T5, T6: calls and results may interleave inside one reply."""
    view = View.of(
        [
            user("u1", "go"),
            reply("a1", call("c1"), of="m1"),
            user("u2", result("c1")),
            reply("a2", call("c2"), of="m1"),
            user("u3", result("c2")),
            reply("a3", "done", of="m2"),
        ]
    )
    assert shape(view) == [
        "user: go",
        "assistant: call c1 | call c2",
        "user: c1=ok | c2=ok",
        "assistant: done",
        f"user: {CONTINUE}",
    ]


def test_results_stand_first_in_order_of_arrival_and_user_text_follows() -> None:
    """T6: a user who speaks while calls are open is heard after the results."""
    view = View.of(
        [
            user("u1", "go"),
            reply("a1", call("c1"), call("c2")),
            user("u2", "hurry"),
            user("u3", result("c2")),
            user("u4", result("c1")),
        ]
    )
    assert shape(view)[-1] == "user: c2=ok | c1=ok | hurry"


def test_an_interrupted_call_gets_a_synthetic_result_that_stays_the_same() -> None:
    """T6: and the bytes sent with it are the bytes sealed when the next reply begins."""
    asked = View.of([user("u1", "go"), reply("a1", call("c1")), user("u2", "never mind")])
    assert shape(asked)[-1] == f"user: c1={INTERRUPTED} | never mind"
    answered = asked.after(reply("a2", "fine"))
    assert answered.messages[: len(asked.messages)] == asked.messages


def test_an_orphan_result_is_left_out_and_reported() -> None:
    """T6: nothing is dropped silently."""
    view = View.of([user("u1", "go", result("c9"))])
    assert shape(view) == ["user: go"]
    assert [(p.kind, p.where) for p in view.problems] == [("orphan_result", "c9")]


def test_a_reply_of_thinking_alone_is_left_out_and_the_users_words_merge() -> None:
    """T6: such a reply cannot be sent."""
    view = View.of(
        [user("u1", "one"), reply("a1", Thinking("hm", "s")), user("u2", "two"), reply("a2", "yes")]
    )
    assert shape(view) == ["user: one | two", "assistant: yes", f"user: {CONTINUE}"]


def test_a_log_that_begins_with_a_reply_gets_an_opening() -> None:
    """T6: the first message is the user's."""
    view = View.of([reply("a1", "hello"), user("u1", "hi"), reply("a2", "so")])
    assert shape(view) == [
        f"user: {OPENING}",
        "assistant: hello",
        "user: hi",
        "assistant: so",
        f"user: {CONTINUE}",
    ]


def test_what_a_request_carried_after_a_bare_reply_stays_when_the_next_reply_comes() -> None:
    """T6: a request never ends with the assistant, and the filler is as stable as any other byte."""
    asked = View.of([user("u1", "go"), reply("a1", "partly")])
    answered = asked.after(reply("a2", "wholly"))
    assert answered.messages[: len(asked.messages)] == asked.messages


def test_records_kept_for_people_only_do_not_reach_the_model() -> None:
    """T5: synthetic error replies, sidechains and abandoned branches load but are not sent."""
    error = Said(id="e", at=moment(0), role="assistant", blocks=(Text("API error"),), aside="display")
    assert shape(View.of([user("u1", "go"), error])) == ["user: go"]


def test_a_cleared_result_stands_differently_and_only_from_there() -> None:
    """T2: Replaced addresses a result by its call."""
    before = View.of([user("u1", "go"), reply("a1", call("c1")), user("u2", result("c1", "x" * 400))])
    cleared = Change(ResultOf("c1"), (result("c1", "[cleared]"),))
    after = before.after(Replaced(id="x", at=moment(1), changes=(cleared,), reason="clear"))
    assert shape(after) == ["user: go", "assistant: call c1", "user: c1=[cleared]"]
    assert shape(before)[-1] == "user: c1=" + "x" * 400
    assert after.replaced == {"c1": "clear"}
    assert after.epochs == ("clear",)
    assert after.estimate < before.estimate


@pytest.mark.parametrize("address", [ResultOf("c1"), BlockOf("a1", 0), BlockOf("u2", 0)])
def test_a_removed_call_takes_its_result_along_and_the_reverse(address: ResultOf | BlockOf) -> None:
    """T2, T6: a call and its result go together."""
    view = View.of(
        [
            user("u1", "go"),
            reply("a1", call("c1"), "and words"),
            user("u2", result("c1"), "thanks"),
            Replaced(id="x", at=moment(1), changes=(Change(address, ()),), reason="snip"),
        ]
    )
    assert shape(view) == ["user: go", "assistant: and words", "user: thanks"]
    assert not view.problems


def test_a_summary_stands_for_a_span_and_the_tail_stays() -> None:
    """T2: Compacted keeps what comes from `keeps_from` on."""
    view = View.of(
        [
            user("u1", "one"),
            reply("a1", "first"),
            user("u2", "two"),
            reply("a2", "second"),
            user("u3", "three"),
            Compacted(id="b", at=moment(1), summary=(Text("so far"),), keeps_from="u3", summary_id="s"),
        ]
    )
    assert shape(view) == ["user: so far | three"]
    assert view.epochs == ("compact",)


def test_what_is_undone_in_one_go_is_folded_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """T3: a rewind undoes record by record; folding the whole log for each took minutes on a long session."""
    records = [user(f"r{i}", f"words {i}") for i in range(40)]
    view = View.of(records)
    folded: list[str] = []

    def counted(record_id: str, index: int, block: Block) -> ItemPart:
        folded.append(record_id)
        return part(record_id, index, block)

    monkeypatch.setattr("nacre.messages.view.part", counted)
    undone = view.after(*(Undone(id=f"u{i}", at=moment(50), target=f"r{i}") for i in range(20, 40)))
    assert len(folded) == 20
    assert undone.messages == View.of(records[:20]).messages
    assert undone.epochs == ("undo",) * 20


def test_undoing_a_compaction_brings_the_old_view_back() -> None:
    """T2, C23: originals stay in the log."""
    records: list[Record] = [user("u1", "one"), reply("a1", "first"), user("u2", "two")]
    boundary = Compacted(id="b", at=moment(1), summary=(Text("so far"),), summary_id="s")
    undone = View.of([*records, boundary, Undone(id="x", at=moment(2), target="b")])
    assert undone.messages == View.of(records).messages
    again = undone.after(Undone(id="y", at=moment(3), target="x"))
    assert again.messages == View.of([*records, boundary]).messages


def test_what_a_compaction_carries_is_noted_with_it_and_gone_when_it_is_undone() -> None:
    """C21: whoever reads from the boundary on finds the bookkeeping there."""
    carried = Noted(id="n2", at=moment(1), kind="tasks", facts={"n": 2})
    records: list[Record] = [user("u1", "one"), Noted(id="n1", at=moment(0), kind="tasks", facts={"n": 1})]
    boundary = Compacted(id="b", at=moment(1), summary=(Text("so far"),), carries=(carried,))
    view = View.of([*records, boundary])
    assert view.last_noted("tasks") == carried == View.of([boundary]).last_noted("tasks")
    undone = view.after(Undone(id="x", at=moment(2), target="b")).last_noted("tasks")
    assert undone is not None
    assert undone.fact("n") == 1


def test_notes_move_no_byte() -> None:
    """T2: Noted is bookkeeping."""
    plain = View.of([user("u1", "go")])
    noted = plain.after(Noted(id="n", at=moment(1), kind="title", facts={"title": "x"}))
    assert noted.messages == plain.messages
    assert noted.chain == plain.chain
    assert [note.facts for note in noted.noted("title")] == [{"title": "x"}]


def test_the_count_is_the_last_usage_plus_an_estimate_of_what_came_since() -> None:
    """C1: input + cache creation + cache read + output, plus what was appended."""
    usage = Usage(input=10, cache_write=200, cache_read=1000, output=40)
    view = View.of(
        [user("u1", "go"), reply("a1", call("c1"), usage=usage), user("u2", result("c1", "x" * 400))]
    )
    assert view.count() == 1250 + 100


def test_parallel_calls_anchor_on_the_first_record_of_the_reply() -> None:
    """C1: results that arrived between the records of one reply are counted."""
    usage = Usage(input=1000, output=40)
    view = View.of(
        [
            user("u1", "go"),
            reply("a1", call("c1"), of="m1", usage=usage),
            user("u2", result("c1", "x" * 400)),
            reply("a2", "y" * 40, of="m1", usage=usage),
            user("u3", "z" * 80),
        ]
    )
    assert view.count() == 1040 + 100 + 10 + 20


def test_tokens_freed_since_the_reply_are_subtracted() -> None:
    """C1: the last usage still shows the size before the clearing."""
    usage = Usage(input=1000, output=0)
    log: list[Record] = [user("u1", "go"), reply("a1", call("c1")), user("u2", result("c1", "x" * 400))]
    log.append(reply("a2", "ok", usage=usage))
    cleared = Change(ResultOf("c1"), (result("c1", "x" * 40),))
    view = View.of([*log, Replaced(id="x", at=moment(1), changes=(cleared,), reason="clear")])
    assert view.count() == 1000 - 90


def test_a_compaction_leaves_only_the_estimate() -> None:
    """C1, C32: the usage before it says nothing about the view after it."""
    log: list[Record] = [user("u1", "go"), reply("a1", "ok", usage=Usage(input=90_000, output=10))]
    log.append(Compacted(id="b", at=moment(1), summary=(Text("x" * 400),)))
    assert View.of(log).count(base=50) == 150


@given(st.text(max_size=40), st.text(max_size=40))
def test_messages_are_shared_but_the_list_is_the_callers(first: str, second: str) -> None:
    """T4: a caller who appends to the list does not touch the view."""
    view = View.of([user("u1", first or "a", second or "b")])
    view.messages.append({"role": "user", "content": []})
    assert view.messages == View.of([user("u1", first or "a", second or "b")]).messages


@given(logs(), st.integers(0, 14))
@settings(max_examples=scaled(300))
def test_what_is_found_in_a_view_is_what_reading_all_of_it_finds(records: list[Record], seen: int) -> None:
    """T3: looking something up costs no walk, also in a view that others have gone past."""
    view, fresh = View.of(records[:seen]), View.of(records[:seen])
    view.after(*records[seen:])
    for one in (view, view.after()):  # the second one has a body of its own
        _finds_the_same(one, fresh)
        assert list(one.records) == records[:seen]


def _finds_the_same(view: View, fresh: View) -> None:
    kinds = ("title", "cursor", "never")
    notes = fresh._body.noted
    assert [view.noted(kind) for kind in kinds] == [[n for n in notes if n.kind == kind] for kind in kinds]
    assert [view.last_noted(kind) for kind in kinds] == [
        next((n for n in reversed(notes) if n.kind == kind), None) for kind in kinds
    ]
    replies, ids = {item.reply_id for item in fresh.items}, {item.record_id for item in fresh.items}
    for name in ("m1", "m2", "m3"):
        assert view.has_reply(name) == (name in replies)
    for name in (f"r{n}" for n in range(15)):
        assert view.has_record(name) == (name in ids)
    assert view.has_system_messages == any(one["role"] == "system" for one in fresh.messages)
    assert list(view.items) == list(fresh.items)
    assert [view.message_start(n) for n in range(20)] == [fresh.message_start(n) for n in range(20)]


@given(logs(rewrites=False), st.integers(0, 30))
def test_a_block_is_found_in_its_message_without_counting_from_the_start(
    records: list[Record], blocks: int
) -> None:
    """Everything before the message is passed over, so that the rest of the way is short."""
    view = View.of(records)
    message, before = view.message_start(blocks)
    sizes = [len(_content(one)) for one in view.messages]
    assert before == sum(sizes[:message])
    assert before < blocks or blocks == before == 0
    assert blocks <= before + sizes[message] if message < len(view.sealed) else True


def _content(message: JsonObject) -> list[Json]:
    content = message["content"]
    assert isinstance(content, list)
    return content


def test_what_is_undone_gives_the_provider_s_figure_back_unless_it_is_newer() -> None:
    """C1, C23: the old view is measured again as it was; a figure given in between is of another view."""
    usage = Usage(input=50_000, output=40)
    records: list[Record] = [user("u1", "go"), reply("a1", "done", usage=usage), user("u2", "z" * 80)]
    compacted = Compacted(id="c", at=moment(0), summary=(Text("short"),), keeps_from="u2", summary_id="s")
    undone = Undone(id="x", at=moment(0), target="c")
    assert View.of([*records, compacted]).count() < 1_000
    assert View.of([*records, compacted, undone]).count() == View.of(records).count() == 50_040 + 20
    later = reply("a2", "more", usage=Usage(input=300, output=1))
    assert View.of([*records, compacted, later, undone]).anchor is None
