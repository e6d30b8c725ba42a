"""Real sessions and trajectories, read whole: counts agree with what their collectors counted (T5, T7)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nacre.messages.blocks import ToolCall, ToolResult
from nacre.messages.foreign import ForeignSession, read_foreign
from nacre.messages.jsonl import Envelope, chained_id, decode, encode
from nacre.messages.jsonl_encode import timestamp
from nacre.messages.records import Compacted, Noted, Record, Said

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
CODE = DATA / "claude_code_sessions"

pytestmark = [
    pytest.mark.real_data,
    pytest.mark.skipif(
        not DATA.is_dir(), reason="needs the folder of real sessions, shared/data beside the repo"
    ),
]


def files(folder: str, pattern: str) -> list[Any]:
    return [pytest.param(path, id=path.name[:40]) for path in sorted((DATA / folder).glob(pattern))]


def content(path: Path) -> bytes:
    with gzip.open(path) as file:
        return file.read()


def index() -> list[Any]:
    path = CODE / "index.jsonl"
    rows = (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    )
    return [pytest.param(row, id=Path(row["file"]).name) for row in rows]


def foreign(path: Path) -> list[ForeignSession]:
    return read_foreign(content(path), name=path.name.removesuffix(".gz"))


def said(records: Sequence[Record]) -> list[Said]:
    return [record for record in records if isinstance(record, Said)]


def calls(records: Sequence[Record]) -> list[str]:
    return [block.id for one in said(records) for block in one.blocks if isinstance(block, ToolCall)]


def answered(records: Sequence[Record]) -> list[str]:
    return [block.call_id for one in said(records) for block in one.blocks if isinstance(block, ToolResult)]


@pytest.mark.parametrize("path", files("claude_code_sessions/raw", "*.gz"))
def test_an_untouched_log_loads_with_every_line_accounted_for(path: Path) -> None:
    """T5: each line is a record or a problem; nothing of the conversation is taken for left behind."""
    lines = content(path).splitlines(keepends=True)
    loaded = decode(lines, session_id=path.name.partition(".")[0])
    counted = loaded.lines
    assert counted.total == len(lines) == counted.recorded + counted.merged
    assert counted.recorded == len(loaded.records)
    messages = [line for line in map(json.loads, lines) if line["type"] in {"user", "assistant"}]
    summaries = sum(isinstance(record, Compacted) for record in loaded.records)
    assert [one.id for one in said(loaded.records)] == [
        line["uuid"] for line in messages if not line.get("isCompactSummary")
    ]
    assert len(said(loaded.records)) + summaries == len(messages)
    assert {one.aside for one in said(loaded.records)} <= {None, "display"}
    assert {problem.kind for problem in loaded.problems} <= {"missing_parent", "not_a_reply", "blank_text"}
    assert loaded.session_id == path.name.partition(".")[0]


@pytest.mark.parametrize("path", files("claude_code_sessions/raw", "*.gz"))
def test_an_untouched_log_can_be_written_again_and_reads_the_same(path: Path) -> None:
    """T2b: import keeps every record, foreign fields included."""
    loaded = decode(content(path).splitlines(keepends=True))
    envelope = Envelope(session_id=loaded.session_id or "", cwd=loaded.cwd or "")
    _assert_survives_writing(loaded.records, envelope)


@pytest.mark.slow
@pytest.mark.parametrize("row", index())
def test_a_lean_session_has_what_its_index_counts(row: dict[str, Any]) -> None:
    """T5, T7: records, calls, compactions, orphans, times."""
    (session,) = foreign(CODE / row["file"])
    records = session.records
    compactions = [record for record in records if isinstance(record, Compacted)]
    assert len(records) + len(compactions) == row["records"]
    assert len(compactions) == row["compactions"]
    assert len(calls(records)) == row["tool_calls"]
    assert len(set(answered(records)) - set(calls(records))) == row["orphan_tool_results"]
    assert sum(one.aside == "sidechain" for one in said(records)) == row["sidechain_records"]
    times = [record.at for record in records]
    assert [timestamp(min(times)), timestamp(max(times))] == [row["t0"], row["t1"]]
    assert session.started == times[0]
    kinds = {problem.kind for problem in session.problems}
    assert kinds <= {"not_a_reply", "blank_text", "abandoned"}


@pytest.mark.slow
def test_few_messages_of_all_lean_sessions_are_on_a_branch_left_behind() -> None:
    """T5: only local commands that were never sent; parallel calls do not count as branches."""
    left = [
        one
        for param in index()
        for one in said(foreign(CODE / param.values[0]["file"])[0].records)
        if one.aside == "abandoned"
    ]
    assert len(left) == 12
    assert all("<command-name>" in one.message.text or "<local-command" in one.message.text for one in left)


@pytest.mark.parametrize("row", index()[::12])
def test_a_lean_session_can_be_written_and_reads_the_same(row: dict[str, Any]) -> None:
    """T2b."""
    (session,) = foreign(CODE / row["file"])
    _assert_survives_writing(session.records, Envelope(session_id=session.session_id, cwd="/w"))


def _assert_survives_writing(records: list[Record], envelope: Envelope) -> None:
    parent: str | None = None
    written: list[bytes] = []
    for record in records:
        written += encode(record, envelope=envelope, parent=parent).splitlines(keepends=True)
        parent = chained_id(record) or parent
    again = decode(written, session_id=envelope.session_id)
    assert again.records == records
    assert again.leaf == parent


@pytest.mark.parametrize("name", ["22c5d52e-9602", "53ea1606-cf60", "acdd84ab-e724"])
def test_the_lean_and_the_untouched_form_of_a_session_tell_the_same_story(name: str) -> None:
    """T7: the same calls in the same order, the same compactions."""
    (lean,) = foreign(CODE / "sessions" / f"{name}.jsonl.gz")
    (raw_path,) = (CODE / "raw").glob(f"{name}*")
    raw = decode(content(raw_path).splitlines(keepends=True))
    assert calls(raw.records) == calls(lean.records)
    assert [(one.at, one.role, one.aside, len(one.blocks)) for one in said(raw.records)] == [
        (one.at, one.role, one.aside, len(one.blocks)) for one in said(lean.records)
    ]
    assert [record.pre_tokens for record in raw.records if isinstance(record, Compacted)] == [
        record.pre_tokens for record in lean.records if isinstance(record, Compacted)
    ]


@pytest.mark.parametrize("path", files("tau_bench", "*.gz"))
def test_every_chat_trajectory_is_a_session_in_which_results_answer_calls(path: Path) -> None:
    """T7: reused call ids do not confuse who answers whom."""
    runs = [json.loads(line)["traj"] for line in content(path).splitlines()]
    sessions = foreign(path)
    assert len(sessions) == len(runs) == 100
    for session, run in zip(sessions, runs, strict=True):
        assert len(said(session.records)) == sum(message["role"] != "system" for message in run)
        made = calls(session.records)
        assert len(made) == len(set(made)) == sum(len(message.get("tool_calls") or []) for message in run)
        assert set(answered(session.records)) <= set(made)


@pytest.mark.parametrize("path", files("swe_agent_trajs", "*.gz"))
def test_every_traj_file_is_a_session_with_its_whole_history(path: Path) -> None:
    """T7."""
    run = json.loads(content(path))
    (session,) = foreign(path)
    history = [message for message in run["history"] if message["role"] != "system"]
    assert len(said(session.records)) >= len(history)
    texts = [one.message.text for one in said(session.records)]
    assert [text for text in texts[: len(history)] if text] == [
        message["content"] for message in history if message["role"] != "tool" and message["content"]
    ]
    assert set(answered(session.records)) <= set(calls(session.records))


@pytest.mark.parametrize("path", files("openhands_style_trajs", "*.gz"))
def test_every_sampled_trajectory_is_a_session_with_all_its_messages(path: Path) -> None:
    """T7: calls inside text stay text, structured ones are paired."""
    runs = [json.loads(line) for line in content(path).splitlines()]
    sessions = foreign(path)
    assert len(sessions) == len(runs) == 3
    for session, run in zip(sessions, runs, strict=True):
        messages = run.get("messages") or run["trajectory"]
        prompts = [one for one in session.records if isinstance(one, Noted) and one.kind == "system_prompt"]
        assert len(said(session.records)) + len(prompts) == len(messages)
        assert set(answered(session.records)) <= set(calls(session.records))
        assert ("swe-gym" in path.name) == bool(calls(session.records))
