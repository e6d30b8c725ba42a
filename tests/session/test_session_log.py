"""Sessions on disk: started, resumed, mended, branched, refused (T1, T8, T8b, T9)."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from nacre.errors import SessionBusy, TranscriptError
from nacre.loop.round import message_record
from nacre.messages.blocks import Text, ToolCall, ToolResult
from nacre.messages.jsonl import Envelope, encode
from nacre.messages.pairing import INTERRUPTED
from nacre.messages.records import Compacted, Record, ReplyFacts, Said
from nacre.messages.view import View
from nacre.session.log_writer import MAX_RESUME_BYTES, OpenedLog, close_open_calls, resume, start
from nacre.store.session_log import SessionLog, log_path
from nacre.testing import FrozenClock

CWD = Path("/somewhere")


def user(text: str, clock: FrozenClock) -> Said:
    return message_record("user", (Text(text),), clock)


def calling(clock: FrozenClock, *ids: str) -> Said:
    blocks = tuple(ToolCall(call_id, "Read", {}) for call_id in ids)
    return Said(id=clock.new_id(), at=clock.now(), role="assistant", blocks=blocks, reply=ReplyFacts(id="m"))


async def kept(home: Path, clock: FrozenClock, *records: Record) -> Path:
    opened = start(home, CWD, clock=clock)
    if records:
        await opened.writer.write(records)
    await opened.writer.close()
    return log_path(home, CWD, opened.writer.session_id)


async def test_what_was_written_is_what_is_read(home: Path, clock: FrozenClock) -> None:
    """T1, T3."""
    records = [
        user("one", clock),
        calling(clock, "a"),
        message_record("user", (ToolResult("a", (Text("r"),)),), clock),
    ]
    path = await kept(home, clock, *records)
    opened = resume(path, home=home, clock=clock)
    assert View.of(opened.records) == View.of(records)
    assert (opened.notices, opened.problems) == ([], [])
    await opened.writer.close()


async def test_an_empty_log_that_cannot_be_deleted_hides_no_other_error(
    home: Path, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    opened = start(home, CWD, clock=clock)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", refuse)
        await opened.writer.close()


async def test_records_hang_on_each_other_across_a_resume(home: Path, clock: FrozenClock) -> None:
    """T2b: other readers follow the chain of parents."""
    path = await kept(home, clock, user("one", clock), user("two", clock))
    opened = resume(path, home=home, clock=clock)
    await opened.writer.write([user("three", clock)])
    await opened.writer.close()
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [line["parentUuid"] for line in lines] == [None, *(line["uuid"] for line in lines[:-1])]
    assert {line["cwd"] for line in lines} == {str(CWD)}


async def test_a_session_in_which_nothing_was_said_leaves_no_file(home: Path, clock: FrozenClock) -> None:
    path = await kept(home, clock)
    assert not path.exists()


async def test_calls_in_flight_are_answered_in_the_log_once(home: Path, clock: FrozenClock) -> None:
    """T8: marked interrupted on disk, so that any reader sees a whole log."""
    path = await kept(home, clock, user("go", clock), calling(clock, "a", "b"))
    opened = await close_open_calls(resume(path, home=home, clock=clock), clock)
    assert opened.notices == ["2 tool calls did not finish last time."]
    await opened.writer.close()
    again = await close_open_calls(resume(path, home=home, clock=clock), clock)
    assert again.notices == []
    assert path.read_text().count(INTERRUPTED) == 2
    assert View.of(again.records).open_calls == []
    await again.writer.close()


async def test_a_session_that_is_open_elsewhere_goes_on_as_a_branch(home: Path, clock: FrozenClock) -> None:
    """T8b: with its own id; the other one is not touched."""
    path = await kept(home, clock, user("one", clock))
    first = resume(path, home=home, clock=clock)
    before = path.read_bytes()
    second = resume(path, home=home, clock=clock)
    await second.writer.write([user("in the branch", clock)])
    assert second.writer.session_id != first.writer.session_id
    assert [second.writer.session_id in notice for notice in second.notices] == [True]
    assert path.read_bytes() == before
    with pytest.raises(SessionBusy):
        SessionLog.open(path, home=home)
    await second.writer.close()
    await first.writer.close()


async def test_too_much_behind_the_last_boundary_is_refused_in_one_line(
    home: Path, clock: FrozenClock
) -> None:
    """T9: a log of any size opens in bounded memory, or says why not."""
    path = await kept(home, clock, user("x" * 1_000_000, clock))
    line = path.read_bytes()
    with path.open("ab") as log:
        for number in range(MAX_RESUME_BYTES // len(line) + 1):
            log.write(line.replace(b"00000000-0000", f"{number:08d}-0000".encode()))
    size = path.stat().st_size
    with pytest.raises(
        TranscriptError, match=r"more than the 67 MB that can be resumed; .*sessions show"
    ) as caught:
        resume(path, home=home, clock=clock)
    assert "\n" not in str(caught.value)
    assert path.stat().st_size == size

    with SessionLog.open(path, home=home) as log_again:
        envelope = Envelope(session_id=path.stem, cwd=str(CWD), git_branch="", version="0")
        boundary = Compacted(
            id=clock.new_id(), at=clock.now(), summary=(Text("in short"),), summary_id=clock.new_id()
        )
        log_again.append(encode(boundary, envelope=envelope, parent=None))
    opened: OpenedLog = resume(path, home=home, clock=clock)
    assert "in short" in str(View.of(opened.records).messages)
    await opened.writer.close()
