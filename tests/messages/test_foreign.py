"""Recordings of other programs, read as sessions (T7)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.errors import ForeignTranscript
from nacre.messages.blocks import Image, Text, Thinking, ToolCall, ToolResult
from nacre.messages.foreign import FORMATS, ForeignSession, read_foreign, recognise
from nacre.messages.records import Compacted, LogProblem, Noted, Said

MADE_UP = LogProblem("made_up_times", "", "the file holds no times; the records are dated one second apart")

CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "look"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path": "."}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "name": "ls", "content": "a b"},
    {"role": "assistant", "content": "two files"},
]
CHAT_SAID = [
    ("user", (Text("look"),)),
    ("assistant", (ToolCall("c1", "ls", {"path": "."}),)),
    ("user", (ToolResult("c1", (Text("a b"),)),)),
    ("assistant", (Text("two files"),)),
]
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "look"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "tool_use", "id": "c1", "name": "ls", "input": {}},
        ],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "a b", "is_error": True}],
    },
]
LEAN: list[dict[str, Any]] = [
    {"i": 0, "p": None, "t": "2026-02-01T00:00:00.000Z", "type": "user", "role": "user", "content": "hi"},
    {"i": 1, "p": 0, "t": "2026-02-01T00:00:01.000Z", "type": "assistant", "role": "assistant", "msg": 0,
     "content": [{"type": "text", "text": "yes"}], "model": "m", "usage": {"input": 3, "output": 4}},
    {"i": 2, "p": None, "t": "2026-02-01T00:00:02.000Z", "type": "system", "subtype": "compact_boundary",
     "compactMetadata": {"trigger": "auto", "preTokens": 9}},
    {"i": 3, "p": 2, "t": "2026-02-01T00:00:02.000Z", "type": "user", "role": "user", "content": "in short",
     "compact_summary": True},
]  # fmt: skip
TRAJ: dict[str, Any] = {
    "environment": "main",
    "trajectory": [
        {"action": "ls", "observation": "a", "response": "I look", "state": {"working_dir": "/testbed"}},
        {"action": "submit", "observation": "diff", "response": "I submit"},
    ],
    "history": [
        {"role": "system", "content": "you are", "agent": "main"},
        {"role": "user", "content": "an example", "agent": "main", "is_demo": True},
        {"role": "assistant", "content": "I look", "thought": "I look", "action": "ls", "agent": "main",
         "tool_calls": [{"id": "c1", "function": {"name": "ls", "arguments": "{}"}}]},
        {"role": "tool", "content": "a", "agent": "main", "tool_call_ids": ["c1"]},
    ],
    "info": {"exit_status": "submitted"},
}  # fmt: skip
NEBIUS = {
    "instance_id": "x",
    "trajectory": [
        {"role": "system", "system_prompt": "you are", "text": None, "mask": False},
        {"role": "user", "system_prompt": None, "text": "solve it"},
        {"role": "ai", "system_prompt": None, "text": "```\nls\n```"},
    ],
}
SMITH = {
    "messages": [
        {"role": "system", "content": "you are"},
        {"role": "user", "content": "solve it"},
        {"role": "assistant", "content": "<function=bash>\n<parameter=command>ls</parameter>\n</function>"},
    ],
    "instance_id": "x",
}
CODE = {"type": "user", "uuid": "u1", "parentUuid": None, "sessionId": "s", "cwd": "/w",
        "timestamp": "2026-02-01T00:00:00.000Z", "message": {"role": "user", "content": "hi"}}  # fmt: skip


def lines(*values: object) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


EXAMPLES: dict[str, tuple[str, bytes]] = {
    "chat list": ("openai-messages", json.dumps(CHAT).encode()),
    "chat list, indented": ("openai-messages", json.dumps(CHAT, indent=2).encode()),
    "chat, a message a line": ("openai-messages", lines(*CHAT)),
    "tau": (
        "openai-messages",
        lines({"task_id": 1, "reward": 0.5, "traj": CHAT}, {"task_id": 2, "traj": CHAT}),
    ),
    "swe-gym": ("openai-messages", lines({"messages": CHAT, "tools": []})),
    "blocks list": ("anthropic-messages", json.dumps(MESSAGES).encode()),
    "blocks, a message a line": ("anthropic-messages", lines(*MESSAGES)),
    "request body": (
        "anthropic-messages",
        json.dumps({"system": "be brief", "messages": MESSAGES[:1]}).encode(),
    ),
    "lean": ("lean", lines(*LEAN)),
    "traj": ("swe-agent", json.dumps(TRAJ, indent=1).encode()),
    "history alone": ("swe-agent", json.dumps({"history": TRAJ["history"]}).encode()),
    "nebius": ("text-trajectories", lines(NEBIUS)),
    "swe-smith": ("text-trajectories", lines(SMITH, SMITH)),
    "claude code": ("claude-code", lines(CODE)),
    "claude code, title first": (
        "claude-code",
        lines({"type": "summary", "summary": "x", "leafUuid": "u"}, CODE),
    ),
}


def said(session: ForeignSession) -> list[tuple[str, tuple[object, ...]]]:
    return [(record.role, record.blocks) for record in session.records if isinstance(record, Said)]


def notes(session: ForeignSession) -> list[tuple[str, dict[str, Any]]]:
    return [(record.kind, record.facts) for record in session.records if isinstance(record, Noted)]


@pytest.mark.parametrize(("form", "data"), EXAMPLES.values(), ids=EXAMPLES.keys())
def test_every_known_form_is_recognised_and_read(form: str, data: bytes) -> None:
    """T7."""
    assert recognise(data) == form
    sessions = read_foreign(data, name="a.jsonl")
    assert all(said(session) for session in sessions)


@pytest.mark.parametrize(("form", "data"), EXAMPLES.values(), ids=EXAMPLES.keys())
def test_lines_and_bytes_give_the_same_with_ids_that_never_vary(form: str, data: bytes) -> None:
    """T7: an import done twice finds its own session again; another file's ids differ."""
    once = read_foreign(data, name="a.jsonl")
    assert read_foreign(iter(data.splitlines(keepends=True)), name="a.jsonl") == once
    assert read_foreign(data, name="dir/a.jsonl") == once
    ids = [record.id for session in once for record in session.records]
    assert len(set(ids)) == len(ids)
    if form != "claude-code":
        other = read_foreign(data, name="b.jsonl")
        assert not {session.session_id for session in once} & {session.session_id for session in other}


@pytest.mark.parametrize(
    ("example", "keep"),
    [
        *[(example, keep) for example in ("chat list", "traj", "history alone") for keep in (0.5, 0.8, 0.95)],
        *[("tau", keep) for keep in (0.3, 0.45)],
        *[("nebius", keep) for keep in (0.5, 0.9)],
        *[("blocks list", keep) for keep in (0.7, 0.9)],
        ("swe-smith", 0.48),
    ],
)
def test_the_first_part_of_a_file_is_enough_to_tell_its_form(example: str, keep: float) -> None:
    """T7: where a long first line is cut, what was said so far decides."""
    form, data = EXAMPLES[example]
    assert recognise(data[: int(len(data) * keep)]) == form


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x1f\x8b\x08\x00\x00",
        b"%PDF-1.7 \x00\x01",
        b"just words\n",
        b"[1, 2]",
        b'{"a": 1}\n',
        b"\xff\xfe",
    ],
)
def test_what_is_no_transcript_is_refused_in_one_line_that_lists_what_is(data: bytes) -> None:
    """T7: says what to do, names the file."""
    with pytest.raises(ForeignTranscript) as refused:
        read_foreign(data, name="x.bin")
    message = str(refused.value)
    assert message.startswith("x.bin: ")
    assert "\n" not in message
    assert all(form in message for form in FORMATS)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """T7: no other error, whatever is dropped on the importer."""
    try:
        read_foreign(data, name="x")
    except ForeignTranscript:
        return


NAMES = [
    "role",
    "content",
    "messages",
    "traj",
    "trajectory",
    "history",
    "tool_calls",
    "function",
    "id",
    "type",
    "text",
    "arguments",
    "name",
    "tool_call_ids",
    "state",
    "response",
    "observation",
    "i",
    "p",
    "t",
    "uuid",
    "message",
    "system",
    "usage",
    "timestamp",
    "function_call",
    "tool_call_id",
    "action",
]
values = st.recursive(
    st.none() | st.integers() | st.sampled_from(["user", "assistant", "tool", "{}", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=14,
)
roles = st.sampled_from(["user", "assistant", "tool", "system", "ai", 3, None, [], {}])
messages_like = st.lists(
    st.builds(
        lambda role, more: {**more, "role": role}, roles, st.dictionaries(st.sampled_from(NAMES), values)
    ),
    min_size=1,
    max_size=4,
)


@given(
    values
    | messages_like
    | messages_like.map(lambda found: {"messages": found})
    | messages_like.map(lambda found: {"trajectory": found})
    | messages_like.map(lambda found: {"history": found, "trajectory": found})
)
def test_any_json_is_read_or_refused(value: object) -> None:
    """T7: fields of the wrong type are no reason to fail."""
    try:
        sessions = read_foreign(json.dumps(value).encode(), name="x")
    except ForeignTranscript:
        return
    for session in sessions:
        ids = [record.id for record in session.records]
        assert len(set(ids)) == len(ids)


def test_chat_messages_become_calls_and_results_and_the_system_prompt_a_note() -> None:
    """T7: a recording's system prompt is its base, not part of the conversation."""
    (session,) = read_foreign(EXAMPLES["chat list"][1], name="a.json")
    assert said(session) == CHAT_SAID
    assert notes(session) == [("system_prompt", {"text": "be brief"})]
    assert session.problems == [MADE_UP]


def test_a_file_of_trajectories_is_one_session_each_with_what_stood_beside_them() -> None:
    """T7."""
    first, second = read_foreign(EXAMPLES["tau"][1], name="a.jsonl")
    assert said(first) == said(second) == CHAT_SAID
    assert notes(first)[0] == ("recording", {"task_id": 1, "reward": 0.5})
    assert first.session_id != second.session_id


def test_made_up_times_go_on_by_a_second_and_are_told() -> None:
    """T7: no clock; the same file gives the same times."""
    (session,) = read_foreign(EXAMPLES["chat list"][1], name="a.json")
    start = datetime(2000, 1, 1, tzinfo=UTC)
    assert [record.at for record in session.records] == [start + timedelta(seconds=n) for n in range(5)]
    assert session.started is None


def test_times_in_the_data_are_taken() -> None:
    """T7."""
    dated = [
        {"role": "user", "content": "hi", "timestamp": "2026-01-02T03:04:05Z"},
        {"role": "assistant", "content": "yes"},
    ]
    (session,) = read_foreign(json.dumps(dated).encode(), name="a.json")
    assert session.started == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert session.records[1].at == session.started + timedelta(seconds=1)
    assert session.problems == []


@pytest.mark.parametrize("arguments", ['{"path": ', "[1]", '"x"'])
def test_malformed_arguments_are_kept_as_they_came_and_told(arguments: str) -> None:
    """T7."""
    chat = [
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "function": {"name": "ls", "arguments": arguments}}],
        }
    ]
    (session,) = read_foreign(json.dumps(chat).encode(), name="a.json")
    assert said(session) == [("assistant", (ToolCall("c1", "ls", {"_malformed": arguments}),))]
    assert [(problem.kind, problem.where) for problem in session.problems] == [
        ("malformed_arguments", "c1"),
        ("made_up_times", ""),
    ]


def test_a_call_id_used_again_gets_a_name_of_its_own_and_so_does_its_result() -> None:
    """T6, T7: a result must answer exactly one call."""
    (session,) = read_foreign(json.dumps([*CHAT, *CHAT[2:4]]).encode(), name="a.json")
    assert said(session)[4:] == [
        ("assistant", (ToolCall("c1_2", "ls", {"path": "."}),)),
        ("user", (ToolResult("c1_2", (Text("a b"),)),)),
    ]
    assert session.problems[0].kind == "repeated_call"


def test_the_older_form_of_calls_is_paired_by_order() -> None:
    """T7: function_call and role function have no ids."""
    chat = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": ""}},
        {"role": "function", "name": "ls", "content": "a"},
        {"role": "function", "name": "ls", "content": "too much"},
    ]
    (session,) = read_foreign(json.dumps(chat).encode(), name="a.json")
    assert said(session)[1:] == [
        ("assistant", (ToolCall("call_1_0", "ls", {}),)),
        ("user", (ToolResult("call_1_0", (Text("a"),)),)),
        ("user", (ToolResult("call_3_unknown", (Text("too much"),)),)),
    ]
    assert session.problems[0].kind == "result_without_call"


def test_pictures_in_chat_messages_become_images() -> None:
    """T7."""
    parts = [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
    ]
    (session,) = read_foreign(json.dumps([{"role": "user", "content": parts}]).encode(), name="a.json")
    assert said(session) == [
        (
            "user",
            (
                Text("see"),
                Image({"type": "base64", "media_type": "image/png", "data": "QUJD"}),
                Image({"type": "url", "url": "https://example.org/a.png"}),
            ),
        )
    ]


def test_block_messages_keep_their_blocks() -> None:
    """T7."""
    (session,) = read_foreign(EXAMPLES["blocks list"][1], name="a.json")
    assert said(session) == [
        ("user", (Text("look"),)),
        ("assistant", (Thinking("hm"), ToolCall("c1", "ls", {}))),
        ("user", (ToolResult("c1", (Text("a b"),), True),)),
    ]


def test_a_request_bodys_system_prompt_is_a_note() -> None:
    """T7: as a string and as blocks."""
    for system in ("be brief", [{"type": "text", "text": "be brief"}]):
        body = {"model": "m", "system": system, "messages": MESSAGES}
        (session,) = read_foreign(json.dumps(body).encode(), name="a.json")
        assert notes(session) == [("recording", {"model": "m"}), ("system_prompt", {"text": "be brief"})]


def test_a_lean_log_reads_like_the_log_it_was_made_from() -> None:
    """T7: replies, usage, compaction; the id comes from the name."""
    (session,) = read_foreign(EXAMPLES["lean"][1], name="45f2ccfd-0915.jsonl")
    first, second, compacted = session.records
    assert isinstance(first, Said)
    assert isinstance(second, Said)
    assert isinstance(compacted, Compacted)
    assert second.reply is not None
    assert second.reply.usage is not None
    assert (second.reply.id, second.reply.model, second.reply.usage.total) == ("msg_0", "m", 7)
    assert (compacted.summary, compacted.pre_tokens) == ((Text("in short"),), 9)
    assert session.started == datetime(2026, 2, 1, tzinfo=UTC)
    assert session.problems == []


def test_a_broken_line_of_a_lean_log_is_told() -> None:
    """T5."""
    (session,) = read_foreign(lines(LEAN[0]) + b"{broken\n" + lines(LEAN[1]), name="a.jsonl")
    assert len(session.records) == 2
    assert [(problem.kind, problem.where) for problem in session.problems] == [("bad_line", "line 2")]


def test_a_traj_file_is_its_history_plus_the_steps_it_lacks() -> None:
    """T7: demonstrations are not a person's words."""
    (session,) = read_foreign(EXAMPLES["traj"][1], name="a.traj")
    assert said(session) == [
        ("user", (Text("an example"),)),
        ("assistant", (Text("I look"), ToolCall("c1", "ls", {}))),
        ("user", (ToolResult("c1", (Text("a"),)),)),
        ("assistant", (Text("I submit"),)),
        ("user", (Text("diff"),)),
    ]
    assert [record.meta for record in session.records if isinstance(record, Said)] == [True, *[False] * 4]
    assert session.cwd == "/testbed"
    assert notes(session)[0] == ("recording", {"environment": "main", "info": {"exit_status": "submitted"}})


def test_calls_written_inside_text_stay_text() -> None:
    """T7: what the model wrote is what it must see again."""
    for example in ("nebius", "swe-smith"):
        session = read_foreign(EXAMPLES[example][1], name="a.jsonl")[0]
        assert [role for role, _ in said(session)] == ["user", "assistant"]
        assert all(isinstance(block, Text) for _, blocks in said(session) for block in blocks)
        assert ("system_prompt", {"text": "you are"}) in notes(session)


def test_a_claude_code_log_brings_its_own_id_folder_and_start() -> None:
    """T7."""
    (session,) = read_foreign(lines(CODE), name="agent-1.jsonl")
    assert (session.session_id, session.cwd, session.started) == ("s", "/w", datetime(2026, 2, 1, tzinfo=UTC))


def test_a_broken_line_in_a_file_of_trajectories_is_told() -> None:
    """T5."""
    data = EXAMPLES["tau"][1]
    first, second, *_ = data.split(b"\n")
    sessions = read_foreign(first + b"\n{broken\n" + second, name="a.jsonl")
    assert len(sessions) == 2
    assert LogProblem("bad_line", "line 2", "is not JSON") in sessions[0].problems


def test_a_state_that_is_nested_too_deeply_is_left_out() -> None:
    step = {"action": "ls", "observation": "a", "response": "I list.", "state": "[" * 50_000}
    data = json.dumps({"history": [{"role": "user", "content": "Hello."}], "trajectory": [step]}).encode()
    [session] = read_foreign(data, name="run.traj")
    assert session.cwd is None
    assert session.records
