"""A way in for other sessions of the same person: a socket whose letters go to this session's inbox (A3)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from nacre.agents.mail_room import MailRoom
from nacre.agents.session import Session
from nacre.errors import MailError
from nacre.layers.l7_mail.letter import MAIN, Letter
from nacre.layers.l7_mail.uds import serve
from nacre.settings import Settings

FOLDER, ENDING = "run", ".sock"
ID_CHARS = 8
"""Of a session's id: a socket's path must be short."""


def socket_path(home: Path, session: str) -> Path:
    """Where a session listens while it is open."""
    return home / FOLDER / f"{session[:ID_CHARS]}{ENDING}"


async def join_socket(room: MailRoom, session: Session, settings: Settings, stack: AsyncExitStack) -> None:
    """Listen while somebody talks in a session that is kept; not for one answer, and not in bare mode.

    What comes is in the inbox before whoever sent it hears that it was taken. Where no socket can be, the
    person is told, and everything else goes on.
    """
    if not settings.is_interactive or not room.is_kept or settings.memory.simple:
        return
    path = socket_path(settings.home, session.id)

    async def accept(letter: Letter) -> None:
        await asyncio.to_thread(room.inbox(MAIN).put, letter)

    try:
        await stack.enter_async_context(serve(path, accept))
    except MailError as error:
        session.notify(f"other sessions cannot write to this one: {error}")
        return
    room.answer_at(f"uds:{path}")
