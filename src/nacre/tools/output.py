"""The output of one tool call: a part for the view, and all of it in a file if it is too long to be shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, TypeAlias

from nacre.clock import SYSTEM_CLOCK
from nacre.errors import StoreError
from nacre.messages.results import WholeOutput
from nacre.process import ProcessOutput
from nacre.tools.run import RUNNING


class OutputFile(Protocol):
    """A file of the result store that receives an output as it arrives."""

    size: int
    """How many bytes were written."""
    refusal: str
    """Why the file takes no more; empty as long as it does."""

    def write(self, data: bytes) -> None:
        """Append what there is room for."""
        ...

    def finish(self) -> Path:
        """Give the file its name, once it is on disk; `StoreError` if that fails."""
        ...

    def discard(self) -> None:
        """Remove the file, unless it is finished."""
        ...


OpenOutput: TypeAlias = Callable[[str], OutputFile]
"""Opens the file for the output of the call with this id; `StoreError` if the disk refuses."""


class ToolOutput:
    """Receives an output; its beginning and end stay in memory, and a long one goes to a file as a whole.

    Use it as a context manager: without `finish` no file is left.
    """

    def __init__(
        self, opens: OpenOutput | None, *, head: int, tail: int = 0, lines: int | None = None, max_bytes: int
    ) -> None:
        """More characters than `head`, or more lines than `lines`, open the file.

        `max_bytes` limits the output if there is no file.
        """
        self.text = ProcessOutput(head=head, tail=tail)
        self._opens = opens
        self._head = head
        self._lines = lines
        self._max_bytes = max_bytes
        self._received = 0
        self._held = bytearray()
        self._file: OutputFile | None = None
        self.whole: WholeOutput | None = None
        """The file, after `finish`."""
        self.problem = ""
        """Why there is no file, or only the beginning of the output in it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.discard()

    @property
    def is_long(self) -> bool:
        """Whether it is too long to be shown."""
        return self.text.characters > self._head or (
            self._lines is not None and self.text.lines > self._lines
        )

    def feed(self, chunk: bytes) -> bool:
        """Take a chunk, and an empty one at the end; False once a limit is reached."""
        self.text.feed(chunk)
        self._received += len(chunk)
        if self._file is None and self._opens is not None:
            self._held += chunk
            if not self.is_long:
                return True
            self._file = self._open()
            chunk = b""
        if self._file is None:
            return self._received <= self._max_bytes
        if chunk and not self._file.refusal:
            self._file.write(chunk)
        return not self._file.refusal

    def _open(self) -> OutputFile | None:
        """Open the file and write what was received so far; None if the disk refuses."""
        assert self._opens is not None, "there is a store"
        call = RUNNING.get()
        try:
            file = self._opens(call.id if call else SYSTEM_CLOCK.new_id())
        except StoreError as error:
            self._opens = None
            self.problem = str(error)
            return None
        file.write(bytes(self._held))
        self._held.clear()
        return file

    async def finish(self, *, is_cut: bool = False) -> None:
        """Complete the file after the last chunk; an output that `is_cut` for the view gets one, too."""
        if is_cut and self._file is None and self._opens is not None:
            self._file = self._open()
        if self._file is None:
            return
        self.problem = self._file.refusal
        try:
            path = await asyncio.to_thread(self._file.finish)
        except StoreError as error:
            self.problem = str(error)
            return
        self.whole = WholeOutput(str(path), self._file.size, self.text.characters, self.problem)

    def note(self, left_out: str, advice: str = "") -> str:
        """Return the line about what is not shown; `advice` tells how to see it if it is in no file."""
        if self.whole is not None:
            return self.whole.note(left_out)
        if self.problem:
            return f"[{left_out} and could not be kept: {self.problem}]"
        return f"[{left_out}; {advice}.]" if advice else f"[{left_out}]"
