"""Run child processes in a process group of their own, end whole groups, and identify processes.

asyncio, subprocess and tempfile are imported by the functions that use them: `nacre hook` imports this
module and must start quickly.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import signal
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import asyncio
    import subprocess

TERM_SECONDS = 2.0
"""How long a group may clean up after SIGTERM before it gets SIGKILL."""
KILL_SECONDS = 5.0
"""How long to wait for a killed process; one that is stuck in the kernel must not block the caller."""
DRAIN_SECONDS = 0.5
"""How long to read from a pipe after its process has ended; a later writer is a background process."""
POLL_SECONDS = 0.02
"""How often to check whether a group is gone; the system does not notify about foreign processes."""
SIZE_POLL_SECONDS = 0.25
"""How often to check the size of a file that receives the error output."""
CHUNK_BYTES = 65_536

Feed: TypeAlias = Callable[[bytes], object]
"""Receives output as it arrives, and an empty chunk at its end; `False` ends the process as a flood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """A command for `run` and its limits."""

    argv: Sequence[str]
    seconds: float
    max_bytes: int | None
    """The process is ended when its output, or the file for its error output, grows larger than this.

    None: only `feed` limits it.
    """
    cwd: Path | None = None
    environ: Mapping[str, str] | None = None
    """None: the environment of this process."""
    stdin: bytes = b""
    stderr: IO[bytes] | None = None
    """A file for the error output; by default it is merged with the output."""
    pass_fds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessExit:
    """Why and how a process ended."""

    why: Literal["exited", "timeout", "flood"]
    exit_code: int | None
    cut_off: bool = False
    """Background processes still held the output open and were ended with the command."""
    group: int | None = None
    """The process group, if background processes that do not hold the output are still running."""


class ProcessOutput:
    """The first and the last characters of an output, and counts of its characters and lines."""

    def __init__(self, *, head: int, tail: int = 0) -> None:
        self._head_chars = head
        self._tail_chars = tail
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._tail_length = 0
        # Incremental, because the bytes of one character may arrive in two chunks.
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.characters = 0
        self.lines = 0

    @property
    def head(self) -> str:
        return "".join(self._head)

    @property
    def tail(self) -> str:
        """The last characters, of which some may be in the head too."""
        return "".join(self._tail)[-self._tail_chars :] if self._tail_chars else ""

    def feed(self, chunk: bytes) -> None:
        text = self._decoder.decode(chunk, final=not chunk)
        room = self._head_chars - self.characters
        if room > 0:
            self._head.append(text[:room])
        self.characters += len(text)
        self.lines += text.count("\n")
        if self._tail_chars:
            self._tail.append(text[-self._tail_chars :])
            self._tail_length += len(self._tail[-1])
            while self._tail_length - len(self._tail[0]) >= self._tail_chars:
                self._tail_length -= len(self._tail.popleft())


async def run(spec: ProcessSpec, feed: Feed, *, feed_errors: Feed | None = None) -> ProcessExit:
    """Run a command until it ends or exceeds a limit, and pass its output to `feed`.

    When this returns or raises, also on cancellation, the whole process group has ended, except background
    processes that do not hold the output open (`ProcessExit.group`).
    """
    import asyncio
    import tempfile

    flooded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    async with contextlib.AsyncExitStack() as stack:
        stdin: IO[bytes] | None = None
        if spec.stdin:
            # A file, not a pipe: a command that does not read must not block the writer.
            stdin = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  # the stack closes it
            stdin.write(spec.stdin)
            stdin.seek(0)
        stdout, reading = await stack.enter_async_context(_open_pipe(feed, spec.max_bytes, flooded))
        stderr = spec.stderr or stdout
        all_reading = {reading}
        if feed_errors is not None:
            stderr, reading_errors = await stack.enter_async_context(_open_pipe(feed_errors))
            all_reading.add(reading_errors)
        elif spec.stderr is not None and spec.max_bytes is not None:
            watching = asyncio.ensure_future(_watch_size(spec.stderr, spec.max_bytes, flooded))
            stack.callback(watching.cancel)
        try:
            process = await spawn(
                spec.argv,
                cwd=spec.cwd,
                environ=spec.environ,
                files=(stdin, stdout, stderr),
                pass_fds=spec.pass_fds,
            )
        finally:
            stdout.close()
            if feed_errors is not None:
                stderr.close()
        try:
            result = await _wait_for_end(process, spec.seconds, reading, flooded)
        except BaseException:
            await _end_process(process)
            raise
        await asyncio.wait(all_reading, timeout=DRAIN_SECONDS)
        return result


async def spawn(
    argv: Sequence[str],
    *,
    cwd: Path | str | None,
    environ: Mapping[str, str] | None,
    files: tuple[IO[bytes] | None, IO[bytes], IO[bytes]],
    pass_fds: tuple[int, ...] = (),
) -> asyncio.subprocess.Process:
    """Start a process in a new session with these files as stdin, stdout and stderr; cancellation ends it."""
    import asyncio
    import subprocess

    stdin, stdout, stderr = files
    spawning = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *argv,
            cwd=cwd,
            env=environ,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            pass_fds=pass_fds,
        )
    )
    try:
        return await asyncio.shield(spawning)
    except asyncio.CancelledError:
        # The fork may already have happened; only its result says which group to end.
        with contextlib.suppress(OSError, ValueError):
            await _end_process(await spawning)
        raise


@contextlib.asynccontextmanager
async def _open_pipe(
    feed: Feed, max_bytes: int | None = None, flooded: asyncio.Future[None] | None = None
) -> AsyncGenerator[tuple[IO[bytes], asyncio.Future[None]], None]:
    """Open a pipe and read it in the background; yield its write end and the reading task."""
    import asyncio

    async def read() -> None:
        reader = asyncio.StreamReader(limit=CHUNK_BYTES)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
        received = 0
        try:
            # To the end, also after a flood: a process that cannot write cannot end in order.
            while chunk := await reader.read(CHUNK_BYTES):
                is_refused = (max_bytes is None or received <= max_bytes) and feed(chunk) is False
                received += len(chunk)
                is_over = is_refused or (max_bytes is not None and received > max_bytes)
                if is_over and flooded and not flooded.done():
                    flooded.set_result(None)
        finally:
            transport.close()
            feed(b"")

    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb", 0) as source, os.fdopen(write_end, "wb", 0) as sink:
        reading = asyncio.ensure_future(read())
        try:
            yield sink, reading
        finally:
            reading.cancel()
            await asyncio.wait({reading})


async def _watch_size(file: IO[bytes], max_bytes: int, flooded: asyncio.Future[None]) -> None:
    import asyncio

    while os.fstat(file.fileno()).st_size <= max_bytes:  # noqa: ASYNC110  # a file does not notify
        await asyncio.sleep(SIZE_POLL_SECONDS)
    if not flooded.done():
        flooded.set_result(None)


async def _wait_for_end(
    process: asyncio.subprocess.Process,
    seconds: float,
    reading: asyncio.Future[None],
    flooded: asyncio.Future[None],
) -> ProcessExit:
    import asyncio

    exited = asyncio.ensure_future(process.wait())
    first: set[asyncio.Future[int] | asyncio.Future[None]] = {exited, flooded}
    try:
        await asyncio.wait(first, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if flooded.done() or not exited.done():
            why: Literal["flood", "timeout"] = "flood" if flooded.done() else "timeout"
            await _end_process(process)
            return ProcessExit(why=why, exit_code=None)
        await asyncio.wait({reading, flooded}, timeout=DRAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            await _end_process(process)
            return ProcessExit(why="exited", exit_code=exited.result(), cut_off=True)
        group = process.pid if group_is_alive(process.pid) else None
        return ProcessExit(why="exited", exit_code=exited.result(), group=group)
    finally:
        exited.cancel()


async def _end_process(process: asyncio.subprocess.Process) -> None:
    """End the whole group and collect the process itself, so that no zombie remains."""
    import asyncio

    try:
        await end_group(process.pid)
    finally:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), KILL_SECONDS)


def run_sync(
    argv: Sequence[str], *, cwd: Path, environ: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[bytes]:
    """Run a command without input and return its whole output; `TimeoutError` after `seconds`.

    For short commands whose output is bounded; the process group is killed when this raises.
    """
    import subprocess

    with subprocess.Popen(
        argv,
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=seconds)
        except BaseException as error:
            kill_group(process.pid)
            if isinstance(error, subprocess.TimeoutExpired):
                raise TimeoutError(f"{argv[0]} took longer than {seconds:g} s") from None
            raise
        return subprocess.CompletedProcess(argv, process.returncode, stdout, stderr)


def start_detached(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    output: int | None = None,
) -> int:
    """Start a process that may outlive this one, in a new session, and return its process id.

    Its output goes to the descriptor `output`, or nowhere.
    """
    import subprocess

    target = subprocess.DEVNULL if output is None else output
    process = subprocess.Popen(
        argv,
        cwd=cwd,
        env=environ,
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=target,
        stderr=target,
        start_new_session=True,
    )
    if process.stdin is not None:
        with process.stdin:
            process.stdin.write(stdin)
    # Popen warns about a process that was not waited for, which is intended here.
    process.returncode = 0
    return process.pid


async def end_group(group: int, *, term_seconds: float | None = None) -> None:
    """End a process group: SIGTERM, `term_seconds` to clean up, SIGKILL."""
    if not group_is_alive(group):
        return
    try:
        _signal_group(group, signal.SIGTERM)
        await _wait_until_gone(group, TERM_SECONDS if term_seconds is None else term_seconds)
    finally:
        # Also when the wait itself is cancelled: then the group gets no more time.
        kill_group(group)
    await _wait_until_gone(group, KILL_SECONDS)


async def _wait_until_gone(group: int, seconds: float) -> None:
    import asyncio

    waited = 0.0
    while group_is_alive(group) and waited < seconds:
        await asyncio.sleep(POLL_SECONDS)
        waited += POLL_SECONDS


def kill_group(group: int) -> None:
    """Send SIGKILL to a process group that is still alive."""
    if group_is_alive(group):
        _signal_group(group, signal.SIGKILL)


def group_is_alive(group: int) -> bool:
    """Return whether a group has a process that is no zombie; many containers never collect zombies."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    tables = list(Path("/proc").glob("[0-9]*/stat"))
    for table in tables:
        with contextlib.suppress(OSError):
            # The name in brackets may contain anything, brackets too; state, parent and group follow it.
            state, _, its_group = table.read_bytes().rpartition(b")")[2].split()[:3]
            if int(its_group) == group and state not in {b"Z", b"X"}:
                return True
    return not tables


def _signal_group(group: int, number: signal.Signals) -> None:
    # It may have ended meanwhile, or belong to another user now.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def is_alive(pid: int, start: str = "") -> bool:
    """Return whether a process runs and, if `start` is given, still is that process: ids are reused.

    A process of another machine cannot be judged by the processes of this one: it counts as running.
    """
    process, _, host = start.partition("@")
    own_process, _, own_host = start_time(os.getpid()).partition("@")
    if host and host != own_host and process.partition(":")[0] != own_process.partition(":")[0]:
        return True
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError, ValueError):
        return False
    except PermissionError:
        pass
    state, now = _state_and_start(pid)
    return state not in {"Z", "X"} and (not process or not now or now.partition("@")[0] == process)


def start_time(pid: int) -> str:
    """Return what distinguishes a process from a later one with the same id; empty where unknown."""
    return _state_and_start(pid)[1]


def _state_and_start(pid: int) -> tuple[str, str]:
    """Return the state of a process and its start: boot id, because ticks restart, ticks, and host."""
    with contextlib.suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return fields.split()[0], f"{boot[:8]}:{fields.split()[19]}@{os.uname().nodename}"
    return "", ""
