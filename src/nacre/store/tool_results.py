"""Tool results on disk next to a session's log: one file per call, written once, read, pruned (C4, C8)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nacre import prompts
from nacre.errors import StoreError
from nacre.messages.blocks import Document, Image, Json, ToolResult
from nacre.messages.media import media_bytes, media_type
from nacre.messages.results import WholeOutput, noted_outputs
from nacre.store import disk
from nacre.store.disk import ResultSettings

FOLDER = "tool-results"
"""Folder of the results, next to the session's log."""
PIECE_CHARS = 1_048_576
"""Characters encoded at a time: a text of two gigabytes is not copied whole."""
SPACE_CHECK_BYTES = 16 * 1024 * 1024
"""How much is written between two looks at the free space of the disk."""
TEMP_PREFIX = ".writing-"
"""Files that a killed process may leave; never listed, and removed before the next result is stored."""
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,119}")
"""Ids that are their own file name: those of every known provider. The length leaves room for a suffix."""
_ERRORS = "surrogatepass"
"""A lone surrogate is written as its three bytes, so that the text read equals the text stored."""


@dataclass(frozen=True, slots=True)
class StoredResult:
    """The file of a stored result."""

    path: Path
    bytes: int


@dataclass(frozen=True, slots=True)
class ResultFile:
    """One file of a store, as a listing shows it."""

    path: Path
    bytes: int
    modified: datetime


class ToolResultStore:
    """The results of one session on disk; without a folder nothing can be stored."""

    def __init__(
        self, folder: Path | None, *, sync: bool = True, settings: ResultSettings | None = None
    ) -> None:
        self.folder = folder
        self.settings = settings or ResultSettings()
        self._sync = sync
        """Whether a file must survive a power cut before a pointer to it is recorded."""
        self._known: dict[str, set[str]] | None = None
        """Names by their form on a file system that ignores case."""
        self._is_swept = False

    def path(self, call_id: str, *, structured: bool = False) -> Path | None:
        """Return the path for the result of a call; an id can contain anything, a file name cannot."""
        if self.folder is None:
            return None
        ending = ".json" if structured else ".txt"
        name = call_id + ending
        # A file system that ignores case would confuse this name with another.
        same = self._names().get(name.casefold(), {name})
        if _PLAIN.fullmatch(call_id) is None or name not in same:
            # No plain id contains "=", so that no other id can have this name.
            name = f"id={_digest(call_id)}{ending}"
        return self.folder / name

    def keep(self, call_id: str, text: str, *, structured: bool = False) -> StoredResult:
        """Store a whole text, in a file with exactly this text even if an id is used a second time.

        Some servers count their ids from one in every conversation or after every restart. Raises
        `StoreError` if the disk refuses.
        """
        path = self.path(call_id, structured=structured)
        if path is None:
            raise StoreError("this session leaves nothing on disk, so its results cannot be kept there")
        with _as_store_error(path):
            self.sweep()
            is_ours = not path.exists() and self._create(path, text)
            if not is_ours and not _holds(path, text):
                path = path.with_name(f"{path.stem}={_digest(text)}{path.suffix}")
                if not path.exists():
                    self._create(path, text)
            return StoredResult(path, path.stat().st_size)

    def keep_media(self, call_id: str, block: Image | Document, number: int = 1) -> StoredResult:
        """Store the picture or document with this number in a result as a file of its kind.

        Raises `StoreError` if the disk refuses or the block holds no file.
        """
        path = self.path(call_id)
        data = media_bytes(block)
        if path is None:
            raise StoreError("this session leaves nothing on disk, so its results cannot be kept there")
        if not data:
            raise StoreError("the block holds no file")
        ending = (media_type(data) or "application/bin").partition("/")[2]
        path = path.with_name(f"{path.stem}={number}.{ending}")
        with _as_store_error(path):
            self.sweep()
            if path.exists() and path.read_bytes() != data:  # an id that is used again
                path = path.with_name(
                    f"{path.stem}={hashlib.blake2b(data, digest_size=16).hexdigest()}.{ending}"
                )
            if not path.exists():
                self._create(path, data)
            return StoredResult(path, len(data))

    def open(self, call_id: str) -> ResultWriter:
        """Return a file for a result that arrives in pieces; `StoreError` if the disk refuses or is full."""
        path = self.path(call_id)
        if path is None:
            raise StoreError("this session leaves nothing on disk, so its results cannot be kept there")
        with _as_store_error(path):
            self.sweep()
            disk.make_folder(path.parent)
            if (free := _free_bytes(path.parent)) < self.settings.free_bytes:
                raise StoreError(f"the disk of {path.parent} has only {free:,} bytes left; free some space")
            return ResultWriter(self, path)

    def sweep(self) -> None:
        """Remove the half-written files of killed processes, once."""
        if not self._is_swept:
            disk.remove_abandoned(one.path for one in self.leavings())
            self._is_swept = True

    def whole_of(self, result: ToolResult) -> WholeOutput | None:
        """Return the file that a tool wrote for this result and names in it; None if there is none.

        A name in the text counts only if it is one that the result of this call has.
        """
        for one in noted_outputs(result.text):
            path = Path(one.path)
            own = self.path(result.call_id)
            if own is None or not (path.name == own.name or path.name.startswith(f"{own.stem}=")):
                continue
            # A child agent calls MCP tools of its parent, whose results are in the parent's folder.
            if (path.parent == self.folder or path.parent.name == FOLDER) and path.is_file():
                return one
        return None

    def read(self, call_id: str, *, structured: bool = False) -> str | None:
        """Return the stored text; None if it is not here."""
        path = self.path(call_id, structured=structured)
        if path is None:
            return None
        with _as_store_error(path):
            try:
                return path.read_bytes().decode(errors=_ERRORS)
            except FileNotFoundError:
                return None

    def held(self) -> list[ResultFile]:
        """Return every file, oldest first, without half-written ones."""
        return [one for one in self._listed() if not one.path.name.startswith(TEMP_PREFIX)]

    def leavings(self) -> list[ResultFile]:
        """Return the half-written files of killed processes."""
        return [one for one in self._listed() if one.path.name.startswith(TEMP_PREFIX)]

    def _create(self, path: Path, content: str | bytes) -> bool:
        """Write a temporary file, then rename it: no reader ever sees half, and no file is overwritten.

        False if the name was taken first.
        """
        disk.make_folder(path.parent)
        temporary = _temporary(path.parent)
        descriptor = disk.open_temporary(temporary)
        try:
            for start in range(0, len(content), PIECE_CHARS):
                piece = content[start : start + PIECE_CHARS]
                disk.write_all(
                    descriptor, piece if isinstance(piece, bytes) else piece.encode(errors=_ERRORS)
                )
            return self.install(descriptor, temporary, path)
        finally:
            # One that stays is removed by the next process; the result is stored.
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            os.close(descriptor)

    def install(self, descriptor: int, temporary: Path, path: Path) -> bool:
        """Give a temporary file its final name; False if that was taken first."""
        if self._sync:
            os.fsync(descriptor)
        is_first = True
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            is_first = False
        except OSError:
            is_first = not path.exists()
            if is_first:  # a file system without hard links
                temporary.replace(path)
        if self._sync:
            disk.sync_folder(path.parent)
        self._names().setdefault(path.name.casefold(), set()).add(path.name)
        return is_first

    def _names(self) -> dict[str, set[str]]:
        if self._known is None:
            self._known = {}
            for one in self._listed():
                self._known.setdefault(one.path.name.casefold(), set()).add(one.path.name)
        return self._known

    def _listed(self) -> list[ResultFile]:
        if self.folder is None:
            return []
        found = []
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):  # gone meanwhile
                        if entry.is_file(follow_symlinks=False):
                            seen = entry.stat(follow_symlinks=False)
                            moment = datetime.fromtimestamp(seen.st_mtime, UTC)
                            found.append(ResultFile(Path(entry.path), seen.st_size, moment))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StoreError(disk.explain(error, self.folder)) from error
        return sorted(found, key=lambda one: (one.modified, one.path.name))


class ResultWriter:
    """Writes a result as it arrives; a file under its final name is complete or named as a beginning.

    Until `finish` the file has a temporary name: what a killed process leaves is removed by the next one.
    """

    def __init__(self, store: ToolResultStore, path: Path) -> None:
        self._store = store
        self._path = path
        self._temporary = _temporary(path.parent)
        self._descriptor = disk.open_temporary(self._temporary)
        self._is_open = True
        self._unchecked = 0
        self.size = 0
        self.refusal = ""

    def write(self, data: bytes) -> None:
        """Append what there is room for; afterwards `refusal` tells whether more is taken."""
        limits = self._store.settings
        taken = data[: limits.max_bytes - self.size]
        self._unchecked += len(taken)
        try:
            if self._unchecked >= SPACE_CHECK_BYTES:
                self._unchecked = 0
                if _free_bytes(self._path.parent) < limits.free_bytes:
                    self.refusal = f"the disk has less than {limits.free_bytes:,} bytes left"
                    return
            disk.write_all(self._descriptor, taken)
        except OSError as error:
            self.refusal = disk.explain(error, self._path.parent)
        # After a failed write a part of the piece may be there.
        self.size = os.fstat(self._descriptor).st_size
        if len(taken) < len(data) and not self.refusal:
            self.refusal = f"a result may have {limits.max_bytes:,} bytes (results.maxBytes)"

    def finish(self) -> Path:
        """Give the file its name and return its path; `StoreError` if the disk refuses."""
        path = self._path
        with _as_store_error(path):
            try:
                if self.refusal:
                    path = path.with_name(f"{path.stem}=beginning{path.suffix}")
                # The second try is for an id that is used again.
                while not self._store.install(self._descriptor, self._temporary, path):
                    path = path.with_name(f"{path.stem}={os.urandom(8).hex()}{path.suffix}")
            finally:
                self.discard()
        return path

    def discard(self) -> None:
        """Remove the temporary file and close it; nothing happens the second time."""
        if self._is_open:
            self._is_open = False
            with contextlib.suppress(OSError):
                self._temporary.unlink(missing_ok=True)
            os.close(self._descriptor)


def _temporary(folder: Path) -> Path:
    return folder / f"{TEMP_PREFIX}{os.urandom(8).hex()}"


def _free_bytes(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def _holds(path: Path, text: str) -> bool:
    """Return whether a file contains exactly this text, compared piece by piece."""
    with path.open("rb") as file:
        for start in range(0, len(text), PIECE_CHARS):
            expected = text[start : start + PIECE_CHARS].encode(errors=_ERRORS)
            if file.read(len(expected)) != expected:
                return False
        return not file.read(1)


def _digest(text: str) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for start in range(0, len(text), PIECE_CHARS):
        digest.update(text[start : start + PIECE_CHARS].encode(errors=_ERRORS))
    return digest.hexdigest()


@contextlib.contextmanager
def _as_store_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(disk.explain(error, path)) from error


def as_result_store(results: ToolResultStore | str | os.PathLike[str]) -> ToolResultStore:
    """Return the store itself, or one in the given directory."""
    return results if isinstance(results, ToolResultStore) else ToolResultStore(Path(results).resolve())


def result_store_in(folder: Path | None, settings: ResultSettings | None = None) -> ToolResultStore:
    """Return the store of a session; without a folder it stores nothing."""
    return ToolResultStore(folder / FOLDER if folder else None, settings=settings)


def result_folders_named(folders: Iterable[Json], home: Path) -> set[Path]:
    """Return those of the folders a log names in which sessions of this home keep results.

    A branch uses what its origin stored; but a log can come from anywhere, and must open nothing else.
    """
    places = {Path(os.path.normpath(str(folder))) for folder in folders}
    return {one for one in places if one.name == FOLDER and one.is_relative_to(home / "projects")}


PERSISTED = prompts.load(__package__, "persisted")
PERSISTED_CUT = prompts.load(__package__, "persisted_cut")
"""The same for a result that its tool had cut: the file does not contain all of it."""
PERSISTED_BEGINNING = prompts.load(__package__, "persisted_beginning")
"""The same for an output that was larger than a file may be."""
OPENING = PERSISTED.partition("\n")[0]
"""Start of every pointer."""
LONG_LINE_CHARS = 2_000
"""Characters that Read shows of a line: the rest of a longer one needs another tool."""
BY_LINES = "Read it with Read (offset and limit choose the lines) or search it with Grep."
BY_PIECES = f" It has lines of more than {LONG_LINE_CHARS:,} characters: `column` of Read reaches into them."


@dataclass(frozen=True, slots=True)
class Advice:
    """How the model should read a file, depending on the tools it has."""

    by_lines: str = BY_LINES
    by_pieces: str = BY_PIECES
    """Added if there are lines that Read would cut."""


USUAL = Advice()


def pointer(
    tool: str,
    text: str,
    kept: StoredResult | WholeOutput,
    *,
    preview_bytes: int,
    advice: Advice = USUAL,
    cut: str | None = None,
) -> str:
    """Return the text that replaces this one from now on.

    The file holds this text, or all of the output of which a tool returned a part. `cut` is how much of its
    result the tool returned, if the rest is in no file.
    """
    sizes = {"chars": f"{kept.chars if isinstance(kept, WholeOutput) else len(text):,}"}
    template = PERSISTED
    if isinstance(kept, WholeOutput) and kept.missing:
        template = PERSISTED_BEGINNING
        sizes = {"missing": kept.missing}
    elif cut is not None:
        template = PERSISTED_CUT
        sizes["cut"] = cut
    return prompts.render(
        template,
        **sizes,
        tool=tool,
        bytes=f"{kept.bytes:,}",
        path=str(kept.path),
        advice=advice.by_lines + advice.by_pieces * has_long_line(text),
        preview=preview(text, preview_bytes),
    )


def preview(text: str, limit: int) -> str:
    """Return the first bytes of a text, cut at the last line end if past half, never in a character."""
    head = text[:limit].encode(errors="surrogatepass")
    if len(head) > limit:
        end = limit
        while end and head[end] & 0xC0 == 0x80:  # the middle of a character
            end -= 1
        head = head[:end]
    shown = head.decode(errors="surrogatepass")
    line_end = head.rfind(b"\n")
    if len(shown) < len(text) and line_end > limit / 2:
        return head[:line_end].decode(errors="surrogatepass")
    return shown


def has_long_line(text: str) -> bool:
    """Return whether Read would cut a line; checks only positions by which a line must have ended."""
    start = 0
    while len(text) - start > LONG_LINE_CHARS:
        end = text.rfind("\n", start, start + LONG_LINE_CHARS + 1)
        if end < 0:
            return True
        start = end + 1
    return False


CLEARED = "clear"
"""Kind of the note, and reason of the rewrite, for a cleared result."""
KEPT = "[This old result was cleared to save room. Its full text is in {path}; read it there if you need it.]"


KEPT_CUT = (
    "[This old result was cleared to save room. What its tool returned, cut, is in {path};"
    " read it there if you need it.]"
)


KEPT_MEDIA = (
    "[This old result was cleared to save room. The file that it showed is in {path}; Read shows it.]"
)


def pointed_to(text: str) -> str | None:
    """Return the file that a cleared result names; None if its text could not be stored."""
    for sentence in (KEPT, KEPT_CUT, KEPT_MEDIA):
        ahead, _, behind = sentence.partition("{path}")
        # A line with names may follow.
        end = text.find(behind)
        if text.startswith(ahead) and end >= 0:
            return text[len(ahead) : end]
    return None
