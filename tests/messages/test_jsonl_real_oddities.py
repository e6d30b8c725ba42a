"""What is wrong in real logs: each oddity loads, and is told (T5)."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.messages.blocks import Text, ToolCall, ToolResult
from nacre.messages.jsonl import LoadedLog, decode
from nacre.messages.records import BlockOf, Change, Compacted, LogProblem, Noted, Replaced, ResultOf, Said
from nacre.messages.usage import Usage

Line = dict[str, object]


def user(uuid: str, parent: str | None, content: object = "hi", **more: object) -> Line:
    return _line("user", uuid, parent, message={"role": "user", "content": content}, **more)


def reply(uuid: str, parent: str | None, *blocks: Line, message_id: str = "m", **more: object) -> Line:
    message = {"role": "assistant", "id": message_id, "model": "claude", "content": list(blocks)}
    return _line("assistant", uuid, parent, message=message | dict(more.pop("message", {})), **more)  # type: ignore[call-overload]


def system(uuid: str, parent: str | None, subtype: str, **more: object) -> Line:
    return _line("system", uuid, parent, subtype=subtype, **more)


def _line(kind: str, uuid: str, parent: str | None, **more: object) -> Line:
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "s",
        "timestamp": "2026-01-01T00:00:00.000Z",
        **more,
    }


def say(text: str) -> Line:
    return {"type": "text", "text": text}


def call(call_id: str) -> Line:
    return {"type": "tool_use", "id": call_id, "name": "Read", "input": {"file_path": "a"}}


def result(call_id: str) -> Line:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "ok"}


def load(*lines: Line | bytes, session_id: str | None = None, subagent: bool = False) -> LoadedLog:
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines]
    loaded = decode(raw, session_id=session_id, subagent=subagent)
    counted = loaded.lines
    assert counted.total == len(raw)
    assert counted.recorded == len(loaded.records)
    assert counted.total == (
        counted.recorded
        + counted.merged
        + counted.blank
        + counted.unreadable
        + counted.repeated
        + counted.torn
    )
    return loaded


def ids(loaded: LoadedLog) -> list[str]:
    return [record.id for record in loaded.records]


def asides(loaded: LoadedLog) -> dict[str, str | None]:
    return {record.id: record.aside for record in loaded.records if isinstance(record, Said)}


def kinds(loaded: LoadedLog) -> list[str]:
    return [problem.kind for problem in loaded.problems]


def test_a_torn_last_line_is_left_out_and_handed_back() -> None:
    """T5, T8: the store moves exactly these bytes aside."""
    loaded = load(user("u1", None), b'{"type":"user","uuid":"u2","mess')
    assert ids(loaded) == ["u1"]
    assert loaded.torn == b'{"type":"user","uuid":"u2","mess'
    assert loaded.problems == [LogProblem("torn_line", "line 2", "the last line was cut off and is left out")]


def test_a_last_line_that_only_lacks_its_newline_counts() -> None:
    """T5: whole JSON is whole; a writer is told to begin with a newline."""
    loaded = load(user("u1", None), json.dumps(reply("a1", "u1", say("yes"))).encode())
    assert ids(loaded) == ["u1", "a1"]
    assert (loaded.torn, loaded.ends_whole, loaded.problems) == (b"", False, [])


def test_a_torn_line_in_character_halves_is_still_torn() -> None:
    """T5: a cut inside a multi-byte character."""
    cut = (
        json.dumps(user("u2", "u1", "项"), ensure_ascii=False).encode().partition("项".encode())[0]
        + b"\xe9\xa1"
    )
    loaded = load(user("u1", None), cut)
    assert (ids(loaded), loaded.torn) == (["u1"], cut)


def test_blank_lines_are_passed_over() -> None:
    """T5."""
    loaded = load(b"\n", user("u1", None), b"  \n", reply("a1", "u1", say("yes")), b"\n")
    assert (ids(loaded), loaded.lines.blank, loaded.problems) == (["u1", "a1"], 3, [])


@pytest.mark.parametrize("ending", [b"\n", b""])
def test_broken_json_in_the_middle_is_told_with_its_line(ending: bytes) -> None:
    """T5: also when lines come without their newline, where only what follows shows it was not the last."""
    loaded = load(user("u1", None), b'{"broken' + ending, reply("a1", "u1", say("yes")))
    assert ids(loaded) == ["u1", "a1"]
    assert loaded.problems == [LogProblem("bad_line", "line 2", "is not JSON")]


def test_lines_that_are_no_object_are_told() -> None:
    """T5."""
    loaded = load(b"[1, 2]\n", b'"text"\n', user("u1", None), b"null\n")
    assert (ids(loaded), loaded.lines.unreadable) == (["u1"], 3)
    assert [(problem.kind, problem.where) for problem in loaded.problems] == [
        ("not_object", "line 1"),
        ("not_object", "line 2"),
        ("not_object", "line 4"),
    ]


def test_json_nested_too_deep_to_parse_is_a_bad_line() -> None:
    """T5: never an exception, whatever the bytes."""
    loaded = load(user("u1", None), b"[" * 200_000 + b"\n")
    assert (ids(loaded), kinds(loaded)) == (["u1"], ["bad_line"])


def test_bytes_that_are_no_text_are_replaced_and_told() -> None:
    """T5."""
    line = json.dumps(user("u1", None, "X")).encode().replace(b'"X"', b'"\xff"') + b"\n"
    loaded = load(line)
    assert isinstance(loaded.records[0], Said)
    assert loaded.records[0].blocks == (Text("\ufffd"),)
    assert kinds(loaded) == ["bad_text"]


def test_unknown_types_are_kept_whole_and_told_once_per_type() -> None:
    """T2b, T5: nothing is dropped."""
    line = {"type": "hologram", "sessionId": "s", "depth": 3}
    loaded = load(user("u1", None), line, {**line, "depth": 4})
    assert [(r.kind, r.facts) for r in loaded.records if isinstance(r, Noted)] == [
        ("foreign/hologram", line),
        ("foreign/hologram", {**line, "depth": 4}),
    ]
    assert loaded.problems == [LogProblem("unknown_type", "", '2 lines of unknown type "hologram" are kept')]


def test_known_bookkeeping_becomes_notes_without_a_word() -> None:
    """T5: titles, snapshots and progress are normal."""
    loaded = load(
        {"type": "summary", "summary": "t", "leafUuid": "x"},
        {"type": "file-history-snapshot", "messageId": "u1", "snapshot": {}},
        _line("progress", "p1", None, data={"type": "hook_progress"}),
        user("u1", "p1"),
        system("x1", "u1", "turn_duration", durationMs=5),
    )
    assert [r.kind if isinstance(r, Noted) else r.id for r in loaded.records] == [
        "foreign/summary",
        "foreign/file-history-snapshot",
        "foreign/progress",
        "u1",
        "system/turn_duration",
    ]
    assert loaded.problems == []


def test_equal_lines_without_an_id_are_two_notes_with_ids_that_never_vary() -> None:
    """T5: reading again gives the same ids, and a line without an id is not a repetition."""
    line: Line = {"type": "queue-operation", "operation": "enqueue"}
    first, again = load(line, line), load(line, line)
    assert len(set(ids(first))) == 2
    assert ids(first) == ids(again)


def test_attachments_of_another_program_are_notes_and_told() -> None:
    """T5."""
    loaded = load(_line("attachment", "t1", None, attachment={"type": "todo", "items": []}), user("u1", "t1"))
    assert isinstance(loaded.records[0], Noted)
    assert (loaded.records[0].kind, kinds(loaded)) == ("attachment/todo", ["attachment"])
    assert asides(loaded) == {"u1": None}


def test_a_repeated_uuid_keeps_the_first() -> None:
    """T5."""
    loaded = load(user("u1", None, "first"), user("u1", None, "second"), reply("a1", "u1", say("yes")))
    assert isinstance(loaded.records[0], Said)
    assert loaded.records[0].blocks == (Text("first"),)
    assert (ids(loaded), loaded.lines.repeated, kinds(loaded)) == (["u1", "a1"], 1, ["repeated_id"])


def test_a_missing_parent_loses_nothing_and_is_told_once_with_a_count() -> None:
    """T5: the walk goes on at the message before in the file."""
    loaded = load(
        user("u1", "lost-1"),
        reply("a1", "u1", say("one"), message_id="m1"),
        user("u2", "lost-2"),
        reply("a2", "u2", say("two"), message_id="m2"),
    )
    assert asides(loaded) == {"u1": None, "a1": None, "u2": None, "a2": None}
    assert loaded.problems == [
        LogProblem("missing_parent", "u1", "2 messages hang on a parent that is not in the log")
    ]


def test_cycles_end_and_lose_nothing() -> None:
    """T5."""
    loaded = load(
        user("u0", None),
        user("u1", "a2"),
        reply("a1", "u1", say("one"), message_id="m1"),
        reply("a2", "a1", say("two"), message_id="m2"),
    )
    assert asides(loaded) == dict.fromkeys(["u0", "u1", "a1", "a2"])
    assert kinds(loaded) == ["cycle"]


def test_a_record_that_is_its_own_parent_ends_too() -> None:
    """T5."""
    loaded = load(user("u0", None), user("u1", "u1"))
    assert (asides(loaded), kinds(loaded)) == ({"u0": None, "u1": None}, ["cycle"])


def test_a_reply_split_over_records_stays_split_with_one_id_and_its_last_usage() -> None:
    """T5: merging is the fold's; usage is the last record's, never the sum."""
    usages = ({"input_tokens": 3, "output_tokens": 1}, {"input_tokens": 3, "output_tokens": 40})
    loaded = load(
        user("u1", None),
        reply("a1", "u1", say("I look"), message_id="m1", message={"usage": usages[0]}),
        reply("a2", "a1", call("c1"), message_id="m1", message={"usage": usages[1]}),
    )
    parts = [record for record in loaded.records if isinstance(record, Said) and record.reply]
    assert [part.reply.id for part in parts if part.reply] == ["m1", "m1"]
    assert loaded.usage == {"m1": Usage(input=3, output=40)}


def test_parallel_calls_that_fan_out_are_all_part_of_the_conversation() -> None:
    """T5: one line of parents passes one of the results only; what was injected behind one belongs too."""
    loaded = load(
        user("u1", None),
        reply("a1", "u1", call("c1"), message_id="m1"),
        reply("a2", "a1", call("c2"), message_id="m1"),
        user("r1", "a1", [result("c1")]),
        user("n1", "r1", "a note", isMeta=True),
        user("r2", "a2", [result("c2")]),
        reply("a3", "r2", say("done"), message_id="m2"),
    )
    assert set(asides(loaded).values()) == {None}
    assert loaded.problems == []


def test_results_interleaved_with_the_parts_of_one_reply_keep_the_order_of_the_file() -> None:
    """T5."""
    loaded = load(
        user("u1", None),
        reply("a1", "u1", call("c1"), message_id="m1"),
        user("r1", "a1", [result("c1")]),
        reply("a2", "r1", call("c2"), message_id="m1"),
        user("r2", "a2", [result("c2")]),
    )
    assert ids(loaded) == ["u1", "a1", "r1", "a2", "r2"]
    assert set(asides(loaded).values()) == {None}


def test_a_branch_left_behind_is_put_aside_and_told_with_a_count() -> None:
    """T5: the person went back and asked again."""
    loaded = load(
        user("u1", None),
        reply("a1", "u1", say("one"), message_id="m1"),
        user("u2", "a1", "wrong way"),
        reply("a2", "u2", call("c9"), message_id="m2"),
        user("r2", "a2", [result("c9")]),
        user("u3", "a1", "right way"),
        reply("a3", "u3", say("two"), message_id="m3"),
    )
    left = {"u2": "abandoned", "a2": "abandoned", "r2": "abandoned"}
    assert asides(loaded) == {"u1": None, "a1": None, **left, "u3": None, "a3": None}
    assert loaded.problems == [LogProblem("abandoned", "u2", "3 messages are on a branch left behind")]
    assert loaded.leaf == "a3"


def test_a_prompt_that_starts_over_leaves_what_was_before() -> None:
    """T5: a rewind to the very start, or a plan begun with a fresh context."""
    loaded = load(
        user("u1", None),
        reply("a1", "u1", say("one")),
        user("u2", None),
        reply("a2", "u2", say("two"), message_id="n"),
    )
    assert asides(loaded) == {"u1": "abandoned", "a1": "abandoned", "u2": None, "a2": None}
    assert kinds(loaded) == ["fresh_start", "abandoned"]


def test_a_log_that_never_names_a_parent_is_read_in_the_order_of_the_file() -> None:
    """T5: no chain at all is no reason to drop anything."""
    loaded = load(
        user("u1", None),
        reply("a1", None, say("one")),
        user("u2", None),
        reply("a2", None, say("two"), message_id="n"),
    )
    assert set(asides(loaded).values()) == {None}
    assert loaded.problems == []


def test_sidechain_records_are_another_agents() -> None:
    """T5: and their branch does not decide what was left behind."""
    loaded = load(
        user("u1", None),
        reply("a1", "u1", call("c1"), message_id="m1"),
        user("s1", None, "task", isSidechain=True),
        reply("s2", "s1", say("done"), message_id="m2", isSidechain=True),
    )
    assert asides(loaded) == {"u1": None, "a1": None, "s1": "sidechain", "s2": "sidechain"}
    assert (loaded.problems, loaded.leaf) == ([], "a1")


def test_a_sub_agents_own_log_is_read_as_its_main_thread_when_asked() -> None:
    """T1: `subagents/agent-*.jsonl`, where every record says sidechain."""
    lines = (user("s1", None, "task", isSidechain=True), reply("s2", "s1", say("done"), isSidechain=True))
    assert kinds(load(*lines)) == ["only_sidechain"]
    loaded = load(*lines, subagent=True)
    assert (asides(loaded), loaded.problems) == ({"s1": None, "s2": None}, [])


@pytest.mark.parametrize(
    "more", [{"isApiErrorMessage": True}, {"message": {"model": "<synthetic>"}}], ids=["flag", "model"]
)
def test_replies_the_program_wrote_itself_are_for_people_only(more: dict[str, object]) -> None:
    """T5: synthetic error replies never reach the model, and the chain goes through them."""
    loaded = load(
        user("u1", None),
        reply("e1", "u1", say("API Error: 529"), message_id="m1", **more),
        user("u2", "e1", "again"),
        reply("a1", "u2", say("yes"), message_id="m2"),
    )
    assert asides(loaded) == {"u1": None, "e1": "display", "u2": None, "a1": None}
    assert kinds(loaded) == ["not_a_reply"]


def test_whitespace_only_text_is_kept_and_told() -> None:
    """T5: the view leaves it out, the log does not."""
    loaded = load(user("u1", None), reply("a1", "u1", say("\n\n")))
    assert isinstance(loaded.records[1], Said)
    assert (loaded.records[1].blocks, kinds(loaded)) == ((Text("\n\n"),), ["blank_text"])


def test_user_text_while_calls_are_open_stays_where_it_was_said() -> None:
    """T5."""
    loaded = load(
        user("u1", None),
        reply("a1", "u1", call("c1")),
        user("u2", "a1", "also look there"),
        user("r1", "u2", [result("c1")]),
    )
    said = [record.blocks[0] for record in loaded.records if isinstance(record, Said)]
    assert said == [
        Text("hi"),
        ToolCall("c1", "Read", {"file_path": "a"}),
        Text("also look there"),
        ToolResult("c1", (Text("ok"),)),
    ]
    assert loaded.problems == []


def test_a_continuation_puts_the_first_record_of_the_earlier_session_aside() -> None:
    """T5: the bridge was said in another session."""
    loaded = load(
        {**reply("b1", "gone", say("the end")), "sessionId": "before"},
        user("u1", "b1"),
        reply("a1", "u1", say("yes"), message_id="m1"),
    )
    assert asides(loaded) == {"b1": "abandoned", "u1": None, "a1": None}
    assert kinds(loaded) == ["other_session", "missing_parent"]
    assert loaded.session_id == "s"


def test_a_copied_history_of_an_earlier_session_stays_when_the_chain_leads_to_it() -> None:
    """T5: a session that was resumed under a new id."""
    loaded = load(
        {**user("u0", None), "sessionId": "before"},
        {**reply("a0", "u0", say("one"), message_id="m0"), "sessionId": "before"},
        user("u1", "a0"),
        session_id="s",
    )
    assert set(asides(loaded).values()) == {None}
    assert kinds(loaded) == ["other_session"]


BOUNDARY = {"compactMetadata": {"trigger": "manual", "preTokens": 900}, "content": "Conversation compacted"}


def test_a_boundary_and_its_summary_are_one_compaction_at_the_boundarys_place() -> None:
    """T2: progress between the two does not part them."""
    loaded = load(
        user("u1", None),
        system("b1", None, "compact_boundary", logicalParentUuid="u1", slug="x", **BOUNDARY),
        _line("progress", "p1", "b1", data={}),
        user("s1", "b1", "in short", isCompactSummary=True, isVisibleInTranscriptOnly=True),
        user("u2", "s1"),
    )
    assert loaded.records[1] == Compacted(
        id="b1",
        at=datetime(2026, 1, 1, tzinfo=UTC),
        summary=(Text("in short"),),
        summary_id="s1",
        trigger="manual",
        pre_tokens=900,
        extra={"slug": "x"},
    )
    assert (ids(loaded), loaded.lines.merged) == (["u1", "b1", "p1", "u2"], 1)
    assert (set(asides(loaded).values()), loaded.problems) == ({None}, [])


@pytest.mark.parametrize(
    "metadata",
    [
        {"compactMetadata": {"type": "auto", "preCompactTokenCount": 7}},
        {"compact_metadata": {"trigger": "auto", "pre_tokens": 7}},
    ],
    ids=["older", "stream"],
)
def test_older_names_of_a_boundarys_facts_are_read_too(metadata: dict[str, object]) -> None:
    """T5."""
    loaded = load(
        system("b1", None, "compact_boundary", **metadata), user("s1", "b1", "x", isCompactSummary=True)
    )
    assert isinstance(loaded.records[0], Compacted)
    assert (loaded.records[0].trigger, loaded.records[0].pre_tokens) == ("auto", 7)


@pytest.mark.parametrize(
    "kept",
    [
        {"preservedSegment": {"headUuid": "u2", "anchorUuid": "s1", "tailUuid": "a2"}},
        {"preservedMessages": {"anchorUuid": "s1", "uuids": ["u2", "a2"]}},
    ],
    ids=["segment", "list"],
)
def test_a_preserved_tail_hanging_on_parents_before_the_boundary_is_kept(kept: dict[str, object]) -> None:
    """T5: the next message hangs on the tail, not on the summary."""
    loaded = load(
        user("u1", None),
        reply("a1", "u1", say("one"), message_id="m1"),
        user("u2", "a1"),
        reply("a2", "u2", say("two"), message_id="m2"),
        system("b1", None, "compact_boundary", logicalParentUuid="a2", compactMetadata=kept),
        user("s1", "b1", "in short", isCompactSummary=True),
        user("u3", "a2"),
        reply("a3", "u3", say("three"), message_id="m3"),
    )
    (compacted,) = [record for record in loaded.records if isinstance(record, Compacted)]
    assert (compacted.keeps_from, compacted.kind) == ("u2", "partial")
    assert set(asides(loaded).values()) == {None}
    assert kinds(loaded) == ["crossed_boundary"]


def test_a_chain_broken_by_a_second_compaction_falls_back_to_the_order_of_the_file() -> None:
    """T5: the second boundary names a parent from before the first."""
    loaded = load(
        user("u1", None),
        system("b1", None, "compact_boundary", logicalParentUuid="u1", **BOUNDARY),
        user("s1", "b1", "once", isCompactSummary=True),
        user("u2", "s1"),
        reply("a2", "u2", say("two"), message_id="m2"),
        system("b2", None, "compact_boundary", logicalParentUuid="u1", **BOUNDARY),
        user("s2", "b2", "twice", isCompactSummary=True),
        user("u3", "s2"),
    )
    assert asides(loaded) == {"u1": None, "u2": None, "a2": None, "u3": None}
    assert [r.id for r in loaded.records if isinstance(r, Compacted)] == ["b1", "b2"]
    assert kinds(loaded) == ["crossed_boundary"]


def test_a_boundary_without_a_summary_did_not_happen() -> None:
    """T5, T8: killed between the two lines."""
    loaded = load(
        user("u1", None), system("b1", None, "compact_boundary", logicalParentUuid="u1", **BOUNDARY)
    )
    assert isinstance(loaded.records[1], Noted)
    assert (loaded.records[1].kind, kinds(loaded)) == (
        "system/compact_boundary",
        ["boundary_without_summary"],
    )


def test_a_summary_without_a_boundary_is_a_compaction() -> None:
    """T5."""
    loaded = load(user("u1", None), user("s1", "u1", "in short", isCompactSummary=True), user("u2", "s1"))
    assert isinstance(loaded.records[1], Compacted)
    assert (loaded.records[1].summary_id, loaded.records[1].summary) == ("s1", (Text("in short"),))
    assert (kinds(loaded), asides(loaded)) == (["summary_without_boundary"], {"u1": None, "u2": None})


def test_a_sidechains_compaction_does_not_touch_the_main_thread() -> None:
    """T5."""
    loaded = load(
        user("u1", None),
        system("b1", None, "compact_boundary", isSidechain=True, **BOUNDARY),
        user("s1", "b1", "in short", isCompactSummary=True, isSidechain=True),
    )
    assert not any(isinstance(record, Compacted) for record in loaded.records)
    assert asides(loaded) == {"u1": None, "s1": "sidechain"}


def test_replacements_of_claude_code_are_decisions() -> None:
    """T2: results that stand shortened."""
    line = {"type": "content-replacement", "sessionId": "s", "replacements": [
        {"kind": "tool-result", "toolUseId": "c1", "replacement": "<persisted-output>"},
    ]}  # fmt: skip
    loaded = load(user("u1", None), line)
    assert isinstance(loaded.records[1], Replaced)
    assert loaded.records[1].changes == (
        Change(ResultOf("c1"), (ToolResult("c1", (Text("<persisted-output>"),)),)),
    )


def test_a_replacement_in_an_unknown_shape_is_kept_and_told() -> None:
    """T5."""
    loaded = load({"type": "content-replacement", "replacements": [{"kind": "hologram"}]})
    assert isinstance(loaded.records[0], Noted)
    assert kinds(loaded) == ["unknown_decision"]


def test_a_snip_takes_out_every_block_of_the_messages_it_names() -> None:
    """T2."""
    loaded = load(
        user("u1", None),
        reply("a1", "u1", say("one"), call("c1")),
        system("x1", "a1", "snip_boundary", snipMetadata={"removedUuids": ["a1", "unknown"]}),
    )
    assert isinstance(loaded.records[2], Replaced)
    assert loaded.records[2].reason == "snip"
    assert loaded.records[2].changes == (Change(BlockOf("a1", 0), ()), Change(BlockOf("a1", 1), ()))


def test_a_message_line_without_a_message_is_kept_and_told() -> None:
    """T5."""
    loaded = load(user("u1", None), _line("user", "u2", "u1"), reply("a1", "u2", say("yes")))
    assert isinstance(loaded.records[1], Noted)
    assert (asides(loaded), kinds(loaded)) == ({"u1": None, "a1": None}, ["no_message"])


def test_lines_without_a_time_take_a_neighbours() -> None:
    """T5: the one before, or at the start of a log the first there is."""
    undated = user("u2", "u1")
    del undated["timestamp"]
    loaded = load({"type": "summary", "summary": "t"}, user("u1", None), undated)
    assert {record.at for record in loaded.records} == {datetime(2026, 1, 1, tzinfo=UTC)}
    assert kinds(loaded) == ["no_time"]


def test_fields_nacre_does_not_know_are_kept() -> None:
    """T2b: of the line, of the message and of its usage."""
    loaded = load(
        reply(
            "a1", None, say("x"), requestId="req", message={"container": 1, "usage": {"service_tier": "std"}}
        )
    )
    assert isinstance(loaded.records[0], Said)
    assert loaded.records[0].extra == {
        "requestId": "req",
        "messageExtra": {"container": 1, "usage": {"service_tier": "std"}},
    }


def test_what_the_lines_repeat_is_told_once() -> None:
    """T1: a writer goes on with these."""
    loaded = load(user("u1", None, cwd="/a", gitBranch="main", version="2.1"), user("u2", "u1", cwd="/b"))
    assert (loaded.session_id, loaded.cwd, loaded.git_branch, loaded.version, loaded.leaf) == (
        "s",
        "/a",
        "main",
        "2.1",
        "u2",
    )


names = st.sampled_from(["u1", "u2", "u3", "u4", None])
odd_values = st.sampled_from(
    [3, None, [], {}, ["x"], {"content": 1}, {"content": "x"}, {"nacre": {"kind": []}}]
)
types = st.sampled_from(
    ["user", "assistant", "system", "nacre", "content-replacement", "attachment", "progress"]
)
odd_line = st.fixed_dictionaries(
    {"type": types | odd_values},
    optional={
        name: odd_values | st.just(True) | st.sampled_from(["u1", "compact_boundary", "snip_boundary"])
        for name in (
            "uuid", "id", "parentUuid", "message", "timestamp", "replacements", "kind", "facts", "subtype",
            "compactMetadata", "isCompactSummary", "nacreAside", "nacreExtra", "attachment", "sessionId",
        )
    },
)  # fmt: skip
any_line = st.one_of(
    st.builds(lambda i, p: user(i or "u5", p), names, names),
    st.builds(
        lambda i, p, m: reply(i or "u5", p, call("c1"), message_id=m), names, names, st.sampled_from("mn")
    ),
    st.builds(lambda i, p: user(i or "u5", p, [result("c1")]), names, names),
    st.builds(lambda i, p: system(i or "u5", p, "compact_boundary", **BOUNDARY), names, names),
    st.builds(lambda i, p: user(i or "u5", p, "x", isCompactSummary=True), names, names),
    st.builds(lambda i, p: user(i or "u5", p, "x", isSidechain=True, sessionId="t"), names, names),
    odd_line,
    st.binary(max_size=12).map(lambda raw: raw.replace(b"\n", b"") + b"\n"),
)


@given(st.lists(any_line, max_size=12))
def test_whatever_stands_in_a_log_it_loads_and_every_line_is_accounted_for(lines: list[Line | bytes]) -> None:
    """T5: any disorder of parents, ids, boundaries and bytes; no exception, ids unique, nothing uncounted."""
    loaded = load(*lines)
    assert len(set(ids(loaded))) == len(loaded.records)
    assert load(*lines).records == loaded.records
