"""What every store of sessions does: logs in a home, and logs in a database with copies in a home."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from nacre.errors import SessionBusy, SessionNotFound
from nacre.loop.round import message_record
from nacre.messages.blocks import Text, ToolCall, ToolResult
from nacre.messages.pairing import INTERRUPTED
from nacre.messages.records import Record, ReplyFacts, Said
from nacre.messages.view import View
from nacre.session.log_writer import OpenedLog, close_open_calls, resume, start
from nacre.store.sessions import Sessions
from nacre.store.tool_results import result_store_in
from nacre.testing import FrozenClock
from tests.postgres import new_database, new_tenant

CWD = Path("/somewhere")


@dataclass(frozen=True)
class Store:
    """A store of sessions."""

    start: Callable[[], Awaitable[OpenedLog]]
    resume: Callable[[str], Awaitable[OpenedLog]]
    resume_elsewhere: Callable[[str], Awaitable[OpenedLog]]
    """On another machine, if the store has one."""


@pytest.fixture(params=["files", "postgres"])
async def store(
    request: pytest.FixtureRequest, home: Path, tmp_path: Path, clock: FrozenClock
) -> AsyncIterator[Store]:
    if request.param == "files":

        async def begin() -> OpenedLog:
            return start(home, CWD, clock=clock)

        async def go_on(wanted: str) -> OpenedLog:
            path = Sessions(home).find(wanted)
            return await close_open_calls(resume(path, home=home, clock=clock), clock)

        yield Store(begin, go_on, go_on)
        return
    from nacre.session.shared_log import resume_shared, start_shared
    from nacre.store.postgres.database import Database
    from nacre.store.postgres.session_rows import SessionRows

    address = new_database()
    await new_tenant(address)
    async with AsyncExitStack() as stack:

        def rows() -> SessionRows:
            database = Database(address)
            stack.push_async_callback(database.close)
            return SessionRows(database, "acme", "42")

        here, there = rows(), rows()
        yield Store(
            lambda: start_shared(here, home, CWD, clock=clock),
            lambda wanted: resume_shared(here, wanted, home=home, clock=clock),
            lambda wanted: resume_shared(there, wanted, home=tmp_path / "elsewhere", clock=clock),
        )


def said(text: str, clock: FrozenClock) -> Said:
    return message_record("user", (Text(text),), clock)


async def test_a_session_continues_with_all_its_records(store: Store, clock: FrozenClock) -> None:
    first = await store.start()
    records: list[Record] = [said("one", clock), said("zwei \x00 \udcff 貝", clock)]
    await first.writer.write(records)
    await first.writer.write([said("three", clock)])
    await first.writer.close()
    for resumed in (store.resume, store.resume_elsewhere, store.resume):
        opened = await resumed(first.writer.session_id[:6])
        assert [one.message.text for one in opened.records if isinstance(one, Said)][:3] == [
            "one", "zwei \x00 \udcff 貝", "three",
        ]  # fmt: skip
        await opened.writer.write([said("more", clock)])
        await opened.writer.close()
    opened = await store.resume(
        "latest" if store.resume is not store.resume_elsewhere else first.writer.session_id
    )
    assert len(View.of(opened.records).items) == 6
    await opened.writer.close()


async def test_an_open_session_continues_as_a_branch(store: Store, clock: FrozenClock) -> None:
    first = await store.start()
    await first.writer.write([said("one", clock)])
    second = await store.resume_elsewhere(first.writer.session_id)
    assert second.writer.session_id != first.writer.session_id
    assert "branch" in " ".join(second.notices)
    await second.writer.write([said("in the branch", clock)])
    await first.writer.write([said("in the first", clock)])
    for one in (first, second):
        await one.writer.close()
    for one, last in ((first, "in the first"), (second, "in the branch")):
        opened = await store.resume(one.writer.session_id)
        assert [each.message.text for each in opened.records if isinstance(each, Said)] == ["one", last]
        await opened.writer.close()


async def test_an_empty_session_leaves_nothing(store: Store) -> None:
    opened = await store.start()
    await opened.writer.close()
    with pytest.raises(SessionNotFound):
        await store.resume(opened.writer.session_id)


async def test_unfinished_calls_are_answered_once(store: Store, clock: FrozenClock) -> None:
    opened = await store.start()
    call = Said(
        id=clock.new_id(), at=clock.now(), role="assistant", blocks=(ToolCall("a", "Read", {}),),
        reply=ReplyFacts(id="m"),
    )  # fmt: skip
    await opened.writer.write([call])
    await opened.writer.close()
    for resumed in (store.resume_elsewhere, store.resume):
        again = await resumed(opened.writer.session_id)
        results = [
            block
            for one in again.records
            if isinstance(one, Said)
            for block in one.blocks
            if isinstance(block, ToolResult)
        ]
        assert [one.text for one in results] == [INTERRUPTED]
        await again.writer.close()


async def test_a_stored_result_is_there_when_the_session_continues(store: Store, clock: FrozenClock) -> None:
    opened = await store.start()
    kept = result_store_in(opened.writer.folder).keep("call-1", "a long result \udcff\n" * 1000)
    await opened.writer.write([said(f"the result is in {kept.path}", clock)])
    await opened.writer.close()
    again = await store.resume_elsewhere(opened.writer.session_id)
    assert result_store_in(again.writer.folder).read("call-1") == "a long result \udcff\n" * 1000
    await again.writer.close()


async def test_a_process_that_lost_its_lease_cannot_write(
    home: Path, tmp_path: Path, clock: FrozenClock
) -> None:
    from nacre.session.shared_log import resume_shared, start_shared
    from nacre.store.postgres.database import Database
    from nacre.store.postgres.session_rows import SessionRows
    from tests.postgres import execute

    address = new_database()
    await new_tenant(address)
    database = Database(address)
    rows = SessionRows(database, "acme", "42")
    slow = await start_shared(rows, home, CWD, clock=clock)
    await slow.writer.write([said("one", clock)])
    # As if it had not renewed its lease for long: suspended, or cut off from the network.
    execute(address, "UPDATE nacre.sessions SET leased = now() - interval '1 second'")
    quick = await resume_shared(rows, slow.writer.session_id, home=tmp_path / "elsewhere", clock=clock)
    assert quick.writer.session_id == slow.writer.session_id
    with pytest.raises(SessionBusy, match="continued by another process"):
        await slow.writer.write([said("too late", clock)])
    await quick.writer.write([said("two", clock)])
    await slow.writer.close()
    await quick.writer.close()
    opened = await resume_shared(rows, slow.writer.session_id, home=home, clock=clock)
    assert [one.message.text for one in opened.records if isinstance(one, Said)] == ["one", "two"]
    await opened.writer.close()
    await database.close()
