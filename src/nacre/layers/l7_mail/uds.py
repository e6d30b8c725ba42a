"""Letters between two sessions of one user over a Unix socket: one line sent, one line returned (A3, A4)."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import socket
import stat
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from nacre.errors import MailError, NacreError
from nacre.layers.l7_mail.letter import MAX_LINE_BYTES, OTHER, SCHEMES, Letter, brief, parse, written
from nacre.layers.l7_mail.policy import MAIL, MailSettings
from nacre.messages.wire import canonical
from nacre.store import disk
from nacre.store.locks import FileLock, Timeout

Accept: TypeAlias = Callable[[Letter], Awaitable[None]]

MAX_PATH_BYTES = 103
"""The smallest limit of all systems for the path of a socket, without the terminating zero."""
MAX_ANSWER_BYTES = 4_096
MAX_DISCARDED_BYTES = 4 * MAX_LINE_BYTES
"""Bytes that are read and discarded after a letter was refused."""
STEPS_TO_TASK = 5
"""Iterations of the event loop from a connection to its task, so that no accepted connection is dropped."""
SOCKET_MODE = 0o600
CLOSING_SECONDS = 1.0
"""Time for the other end to read the answer, one short line."""
OTHERS = 0o077
_LOCAL_PEERCRED = 1
_XUCRED_BYTES = 76


@asynccontextmanager
async def serve(path: str | Path, accept: Accept, *, settings: MailSettings = MAIL) -> AsyncIterator[None]:
    """Accept letters at a path within the block; each is acknowledged after `accept` has stored it."""
    place = _checked_path(path)
    connections = _SocketServer(accept, settings)
    with _bound(place) as bound:
        server = await asyncio.start_unix_server(connections.handle, sock=bound, limit=MAX_LINE_BYTES)
        try:
            yield
        finally:
            server.close()
            for _ in range(STEPS_TO_TASK):
                await asyncio.sleep(0)
            await connections.close()


async def send(path: str | Path, letter: Letter, *, settings: MailSettings = MAIL) -> None:
    """Send a letter to the session that listens at a path; raises `MailError` if it is not accepted."""
    line = written(letter)
    place = _checked_path(path)
    _check_socket(place)
    writer = None
    try:
        async with asyncio.timeout(settings.socket_seconds):
            reader, writer = await asyncio.open_unix_connection(str(place), limit=MAX_ANSWER_BYTES)
            if _peer_uid(writer.get_extra_info("socket")) != os.geteuid():
                raise MailError(f"another user's process answers at {place}; nothing was sent")
            writer.write(line)
            await writer.drain()
            _check_answer(await reader.readline(), letter.id)
    except TimeoutError:
        raise MailError(
            f"no answer at {place} within {settings.socket_seconds:g} s; the letter may have arrived"
        ) from None
    except (ConnectionRefusedError, FileNotFoundError):
        raise MailError(f"no session listens at {place}; it has ended") from None
    except (OSError, ValueError) as error:
        raise MailError(f"the talk at {place} broke off ({error}); the letter may have arrived") from error
    finally:
        if writer is not None:
            await _closed(writer)


class _SocketServer:
    """Handles a limited number of connections at a time."""

    def __init__(self, accept: Accept, settings: MailSettings) -> None:
        self._accept = accept
        self._settings = settings
        self._tasks: set[asyncio.Task[None]] = set()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        is_full = len(self._tasks) >= self._settings.socket_talks
        self._tasks.add(task)
        try:
            async with asyncio.timeout(self._settings.socket_seconds):
                writer.write(await self._answer(reader, writer, is_full=is_full))
                await writer.drain()
            # A sender that is cut off while writing never reads the answer.
            left = MAX_DISCARDED_BYTES
            async with asyncio.timeout(CLOSING_SECONDS):
                while left > 0 and (chunk := await reader.read(MAX_ANSWER_BYTES)):
                    left -= len(chunk)
        except (OSError, TimeoutError):
            pass  # the other end has gone or is too slow; its letter was not acknowledged
        finally:
            await _closed(writer)
            self._tasks.discard(task)

    async def close(self) -> None:
        """Wait for open connections, which have a time limit."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._settings.socket_seconds)

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_full: bool
    ) -> bytes:
        try:
            if _peer_uid(writer.get_extra_info("socket")) != os.geteuid():
                raise MailError("only the same user may write here")
            if is_full:
                raise MailError("too many write at once; try again in a moment")
            letter = parse(await _line(reader))
            if not letter.sender.startswith(SCHEMES):
                # A plain name could be mistaken for an agent of this session.
                letter = replace(letter, sender=f"{OTHER}{letter.sender}")
            await self._accept(letter)
        except NacreError as error:
            return canonical({"refused": brief(str(error))}) + b"\n"
        return canonical({"accepted": letter.id}) + b"\n"


async def _closed(writer: asyncio.StreamWriter) -> None:
    """Close a connection, forcibly after a time limit."""
    writer.close()
    try:
        async with asyncio.timeout(CLOSING_SECONDS):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        line = await reader.readline()
    except ValueError:
        raise MailError(f"a letter has at most {MAX_LINE_BYTES:,} bytes; send the path of a file") from None
    if not line.endswith(b"\n"):
        raise MailError("the letter was cut off; send it again")
    return line


def _check_answer(line: bytes, sent: str) -> None:
    with suppress(ValueError, RecursionError):
        match json.loads(line):
            case {"accepted": str(accepted)} if accepted == sent:
                return
            case {"refused": str(reason)}:
                raise MailError(f"the other session refused the letter: {brief(reason)}")
    raise MailError("the other session gave no answer; the letter may have arrived")


def _checked_path(path: str | Path) -> Path:
    text = os.fspath(path)
    if "\0" in text or not text.startswith("/") or ".." in Path(text).parts:
        raise MailError(f"{text!r} is no path of a socket; give the absolute one, as in uds:/run/me/a.sock")
    if len(os.fsencode(text)) > MAX_PATH_BYTES:
        raise MailError(
            f"{text!r} is too long for a socket (at most {MAX_PATH_BYTES} bytes); take a shorter one"
        )
    return Path(text)


def _check_socket(path: Path) -> None:
    """Raise `MailError` unless the path is a socket of the same user."""
    try:
        found = path.stat(follow_symlinks=False)
    except OSError:
        raise MailError(f"there is no socket at {path}; that session has ended or never was") from None
    if not stat.S_ISSOCK(found.st_mode):
        raise MailError(f"{path} is not a socket; write to the path that the other session names")
    if found.st_uid != os.geteuid():
        raise MailError(f"the socket {path} belongs to another user; write to a session of your own")


@contextmanager
def _bound(path: Path) -> Iterator[socket.socket]:
    """Yield a listening socket that only its owner can reach; one that a dead session left is replaced."""
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        _check_folder(path.parent)
        lock.acquire(timeout=0)
    except Timeout:
        raise MailError(f"another session listens at {path}; choose another path") from None
    except OSError as error:
        raise MailError(disk.explain(error, path)) from error
    try:
        _clear(path)
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            bound.bind(str(path))
            path.chmod(SOCKET_MODE)
            yield bound
        finally:
            bound.close()
            path.unlink(missing_ok=True)
    except OSError as error:
        raise MailError(disk.explain(error, path)) from error
    finally:
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def _check_folder(folder: Path) -> None:
    disk.make_folder(folder)
    found = folder.stat(follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise MailError(f"{folder} is a link or another user's; sockets lie in a folder of one's own")
    if stat.S_IMODE(found.st_mode) & OTHERS:
        raise MailError(f"others can enter {folder}; run `chmod 700` on it or choose another folder")


def _clear(path: Path) -> None:
    """Delete the socket of a dead session, and nothing else."""
    if not os.path.lexists(path):
        return
    _check_socket(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except OSError:
            pass
    raise MailError(f"another program listens at {path}; choose another path")


def _peer_uid(connected: socket.socket) -> int:
    """Return the user id of the other end as the kernel reports it; raises `MailError` if it does not."""
    if (credentials := getattr(socket, "SO_PEERCRED", None)) is not None:
        size = struct.calcsize("3i")
        _, uid, _ = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, credentials, size))
        return int(uid)
    if platform.system() == "Darwin":
        version, uid = struct.unpack_from("=II", connected.getsockopt(0, _LOCAL_PEERCRED, _XUCRED_BYTES))
        if version == 0:
            return int(uid)
    raise MailError("this system does not say who is at the other end of a socket; use a name instead")
