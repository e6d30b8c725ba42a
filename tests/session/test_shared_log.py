"""Sessions in a database survive the kill of their writer and of the database."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="needs the extra `dev`")

from nacre.clock import SYSTEM_CLOCK
from nacre.loop.round import message_record
from nacre.messages.blocks import Text
from nacre.messages.records import Said
from nacre.session.shared_log import bring_all, resume_shared, start_shared
from nacre.store.postgres.database import Database
from nacre.store.postgres.schema import migrate
from nacre.store.postgres.session_rows import SessionRows
from tests.postgres import Server, execute, new_database, new_tenant
from tests.scale import scaled

WRITER = Path(__file__).parent / "shared_writer.py"


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A PostgreSQL server of this test alone, which may be killed."""
    server = Server()
    yield server
    server.stop()


def _write(address: str, home: Path, session: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(WRITER), address, str(home), session],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        text=True, stdout=subprocess.PIPE,
    )  # fmt: skip


async def _texts(address: str, home: Path, session: str) -> list[str]:
    database = Database(address)
    rows = SessionRows(database, "acme", "42")
    opened = await resume_shared(rows, session, home=home)
    await opened.writer.close()
    await database.close()
    return [one.message.text for one in opened.records if isinstance(one, Said)]


@pytest.mark.slow  # processes that start again and again
async def test_acknowledged_records_survive_kills_of_the_writer(tmp_path: Path) -> None:
    address = new_database()
    await new_tenant(address)
    session, acknowledged = "new", list[str]()
    for number in range(scaled(4)):
        process = _write(address, tmp_path / str(number % 2), session)
        assert process.stdout is not None
        session = (await asyncio.to_thread(process.stdout.readline)).strip()
        for _ in range(random.randrange(1, 12)):
            acknowledged.append((await asyncio.to_thread(process.stdout.readline)).strip())
        process.kill()
        acknowledged += process.communicate()[0].split()
        texts = await _texts(address, tmp_path / "reader", session)
        # One record more may be written whose acknowledgement was lost with the process.
        assert [one for one in texts if one in set(acknowledged)] == acknowledged
        assert len(texts) <= len(acknowledged) + number + 1
    broken = execute(
        address,
        "SELECT count(*) FROM (SELECT position, lead(position) OVER (ORDER BY position) AS following,"
        " octet_length(coalesce(convert_to(content, 'UTF8'), raw)) AS size"
        " FROM nacre.session_records) AS r WHERE position + size <> following",
    )
    assert broken == [(0,)]


@pytest.mark.slow  # a server of its own that is killed and started
async def test_acknowledged_records_survive_kills_of_the_database(own_server: Server, tmp_path: Path) -> None:
    await migrate(Database(own_server.address, is_server=False, idle=0))
    await new_tenant(own_server.address)
    process = _write(own_server.address, tmp_path / "home", "new")
    assert process.stdout is not None
    session = (await asyncio.to_thread(process.stdout.readline)).strip()
    acknowledged: list[str] = []
    try:
        for _ in range(scaled(2, at_least=1)):
            for _ in range(20):
                acknowledged.append((await asyncio.to_thread(process.stdout.readline)).strip())
            own_server.kill()
            await asyncio.to_thread(own_server.start)
        for _ in range(20):
            acknowledged.append((await asyncio.to_thread(process.stdout.readline)).strip())
    finally:
        process.kill()
        acknowledged += process.communicate()[0].split()
    texts = await _texts(own_server.address, tmp_path / "home", session)
    assert texts[: len(acknowledged)] == acknowledged
    assert len(texts) <= len(acknowledged) + 1


async def test_the_copy_of_an_open_session_is_left_to_its_writer(tmp_path: Path) -> None:
    """A server that shares the home lists sessions while an agent writes to one."""
    address = new_database()
    await new_tenant(address)
    database = Database(address)
    rows = SessionRows(database, "acme", "42")
    opened = await start_shared(rows, tmp_path, Path("/somewhere"))

    async def write() -> None:
        for number in range(30):
            await opened.writer.write([message_record("user", (Text(str(number)),), SYSTEM_CLOCK)])

    async def bring() -> None:
        while not writing.done():
            await bring_all(rows, tmp_path)

    writing = asyncio.create_task(write())
    await asyncio.gather(writing, bring())
    [path] = tmp_path.glob("projects/*/*.jsonl")
    assert len(path.read_bytes().splitlines()) == 30
    await opened.writer.close()
    await bring_all(rows, tmp_path)
    assert path.stat().st_size == execute(address, "SELECT bytes FROM nacre.sessions")[0][0]
    await database.close()
