"""A process that appends numbered records to a session in a database and prints each acknowledged one."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from nacre.clock import SYSTEM_CLOCK
from nacre.loop.round import message_record
from nacre.messages.blocks import Text
from nacre.session.shared_log import resume_shared, start_shared
from nacre.store.postgres.database import Database
from nacre.store.postgres.session_rows import SessionRows


async def main(address: str, home: Path, session: str) -> None:
    rows = SessionRows(Database(address), "acme", "42")
    opened = (
        await start_shared(rows, home, Path("/somewhere"))
        if session == "new"
        else await resume_shared(rows, session, home=home)
    )
    print(opened.writer.session_id, flush=True)
    number = len(opened.records)
    while True:
        text = f"{number}-{SYSTEM_CLOCK.new_id()[:8]}"
        await opened.writer.write([message_record("user", (Text(text),), SYSTEM_CLOCK)])
        print(text, flush=True)
        number += 1
        await asyncio.sleep(0.005)


asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
