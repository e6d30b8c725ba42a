"""Files through the client: its unsaved changes are read, and changes go through its buffers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from acp.exceptions import RequestError
from acp.interfaces import Client

from nacre.errors import ToolError
from nacre.tools.files import decode, read_whole, replace_file
from nacre.tools.workspace import Workspace

READ_SECONDS = 5.0
"""How long a client may take to return a buffer; after it the file on disk is read."""
WRITE_SECONDS = 60.0
"""How long a client may take to save a file, which may run a formatter."""
CLIENT_ERRORS = (RequestError, OSError, TimeoutError, ValueError)
"""What a request to a client raises: its refusal, a lost connection, no answer, an answer that is none."""


class EditorFiles:
    """The open files of a client, for the tools of one session.

    The guard has decided about a path before it gets here, and only files of the session's folders do.
    """

    def __init__(self, client: Client, session: str, roots: Sequence[Path]) -> None:
        self._client = client
        self._session = session
        self._roots = tuple(dict.fromkeys(one.resolve() for one in roots))

    def attach(self, workspace: Workspace) -> None:
        """Let the tools of a session use them; a folder that has a writer, such as memory, keeps it."""
        workspace.unsaved = self.unsaved
        for root in self._roots:
            workspace.owned.setdefault(root, self.write)

    async def unsaved(self, path: Path) -> bytes | None:
        """Return the content of a buffer that differs from its file, encoded as the file is."""
        if not any(path.is_relative_to(root) for root in self._roots):
            return None
        try:
            reading = self._client.read_text_file(session_id=self._session, path=str(path))
            answer = await asyncio.wait_for(reading, READ_SECONDS)
            content, _ = await asyncio.to_thread(read_whole, path, str(path))
            saved, encoding = decode(content, str(path))
            text = answer.content
            if _lines(text) == _lines(saved):
                return None
            if "\r\n" in saved and "\r\n" not in text:
                text = text.replace("\n", "\r\n")  # editors keep the line ends apart from the text
            return encoding.mark + text.encode(encoding.name, encoding.errors)
        except (*CLIENT_ERRORS, ToolError):
            return None

    async def write(self, path: Path, content: bytes) -> None:
        """Write a file through the client; one that is not plain UTF-8 goes to the disk."""
        try:
            text = content.decode()
        except UnicodeDecodeError:
            text = "\ufeff"
        if text.startswith("\ufeff"):
            await asyncio.to_thread(_write, path, content)
            return
        try:
            writing = self._client.write_text_file(session_id=self._session, path=str(path), content=text)
            await asyncio.wait_for(writing, WRITE_SECONDS)
        except CLIENT_ERRORS as error:
            why = str(error) or f"no answer in {WRITE_SECONDS:.0f} s"
            raise ToolError(f"The editor did not write {path}: {why}.") from error
        if not await asyncio.to_thread(path.is_file):
            raise ToolError(f"The editor did not save {path}.")


def _write(path: Path, content: bytes) -> None:
    replace_file(path, content, before=path.stat() if path.exists() else None)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")
