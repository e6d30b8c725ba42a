"""Logs of agents beside a session: what is in them, and what a crash or a full disk leaves."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.errors import TranscriptError
from nacre.messages.blocks import Text, ToolCall, ToolResult
from nacre.messages.jsonl import Envelope, decode
from nacre.messages.records import Noted, Record, ReplyFacts, Said
from nacre.messages.view import View
from nacre.session.log_writer import AGENT, AgentLog, agent_log_path
from nacre.store.lines import read_lines

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
ENVELOPE = Envelope(session_id="s1", cwd="/work", version="1")


def conversation(count: int) -> list[Record]:
    """A directive, then rounds of one call each."""
    records: list[Record] = [
        Noted(id="n", at=AT, kind="fork", facts={"source": "agent"}),
        Said(id="u", at=AT, role="user", blocks=(Text("Go."),), meta=True),
    ]
    for n in range(count):
        call = ToolCall(f"c{n}", "Read", {"file_path": "a"})
        facts = ReplyFacts(id=f"m{n}", model="m", stop_reason="tool_use")
        records.append(Said(id=f"a{n}", at=AT, role="assistant", blocks=(call,), reply=facts))
        records.append(Said(id=f"r{n}", at=AT, role="user", blocks=(ToolResult(f"c{n}", (Text("x"),)),)))
    return records


async def written(path: Path, records: list[Record]) -> None:
    with AgentLog(path, ENVELOPE, agent="a1") as log:
        await log.write(records)


async def test_a_log_reads_back_as_it_was_said_and_each_message_is_marked_as_the_agents(
    tmp_path: Path,
) -> None:
    """T2, F2: for whoever knows such logs, ours or not."""
    path, records = agent_log_path(tmp_path / "s1", "a1"), conversation(3)
    await written(path, records)
    assert path == tmp_path / "s1" / "subagents" / "agent-a1.jsonl"
    loaded = decode(read_lines(path), subagent=True)
    assert View.of(loaded.records) == View.of(records)
    assert not loaded.problems
    lines = [json.loads(line) for line in read_lines(path)]
    messages = [line for line in lines if line["type"] in {"user", "assistant"}]
    assert {(line["isSidechain"], line[AGENT], line["sessionId"]) for line in messages} == {
        (True, "a1", "s1")
    }
    assert [line["parentUuid"] for line in messages] == [None, *(line["uuid"] for line in messages[:-1])]
    assert path.stat().st_mode & 0o777 == 0o600


@given(cut=st.integers(min_value=0, max_value=2_000))
async def test_a_log_that_was_torn_goes_on_after_its_last_whole_line(
    cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """T8: wherever the crash was; what comes after hangs on what is there."""
    path = agent_log_path(tmp_path_factory.mktemp("s"), "a1")
    records = conversation(3)
    await written(path, records[:-2])
    os.truncate(path, max(0, path.stat().st_size - cut))
    kept = path.read_bytes().count(b"\n")
    await written(path, [Said(id="later", at=AT, role="user", blocks=(Text("Go on."),), meta=True)])
    loaded = decode(read_lines(path), subagent=True)
    assert len(loaded.records) in {kept + 1, kept + 2}  # a whole line may only have lost its end
    assert not loaded.problems
    assert loaded.leaf == "later"


async def test_a_place_that_is_no_file_is_said_in_one_line(tmp_path: Path) -> None:
    """T1: the agent is not sent, rather than sent without a log."""
    path = agent_log_path(tmp_path, "a1")
    path.mkdir(parents=True)
    with pytest.raises(TranscriptError, match="is not a regular file"):
        AgentLog(path, ENVELOPE, agent="a1")


async def test_on_a_full_disk_nothing_is_written_by_halves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T1: what could not be kept did not happen."""
    path = agent_log_path(tmp_path, "a1")
    with AgentLog(path, ENVELOPE, agent="a1") as log:
        await log.write(conversation(1))
        before = path.read_bytes()

        def full(descriptor: int, data: bytes) -> int:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            with pytest.raises(TranscriptError, match="disk full"):
                await log.write(conversation(2))
    assert path.read_bytes() == before
