"""Read what an import accepts: a folder of Markdown, an archive of one, a note, or a mem0 export."""

from __future__ import annotations

import json
import os
import stat
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path, PurePosixPath

from nacre.errors import StoreError
from nacre.memory.files.scan import MAX_TOPIC_BYTES, NotAMemory, SkippedFile, read_head
from nacre.memory.format.entry import parse_timestamp
from nacre.memory.format.index import INDEX_FILE
from nacre.messages.blocks import Json, JsonObject
from nacre.store import disk

MAX_FILES = 20_000
"""With more files, the wrong folder was probably named."""
MAX_TOTAL_BYTES = 268_435_456
"""Limit on all files together, packed or not."""
MAX_DEPTH = 16
"""Deeper folders are not searched."""
_SECOND_NS = 1_000_000_000
_MAX_SECONDS = 2**33
NOT_MEMORIES = frozenset({"node_modules", "__pycache__"})


@dataclass(frozen=True, slots=True)
class ImportFile:
    """One Markdown file to import."""

    file: str
    """Its path below the folder, with forward slashes."""
    data: bytes
    written: int | None = None
    """Its modification time, in nanoseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFact:
    """One memory of another program that has no files."""

    id: str
    text: str
    kind: str = ""
    created: datetime | None = None
    modified: datetime | None = None
    rest: JsonObject
    """Its other fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportBatch:
    """Everything at a path that can be imported."""

    files: tuple[ImportFile, ...] = ()
    index: bytes | None = None
    """The index of a memory folder; None for a folder of notes."""
    facts: tuple[ImportedFact, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()


FoundFile = ImportFile | SkippedFile


def read_batch(path: Path) -> ImportBatch:
    """Read everything at a path that may be a memory; raise `StoreError` if there is nothing."""
    try:
        if path.is_dir():
            batch = _memory_folder(_folder_files(path), path)
        elif path.suffix in {".json", ".jsonl"}:
            batch = _facts(path)
        elif path.suffix == ".md":
            batch = _memory_folder(_opened([(path.name, path)]), path)
        else:
            batch = _memory_folder(_packed_files(path), path)
    except (tarfile.TarError, EOFError, zlib.error, OverflowError) as error:
        raise StoreError(f"{path} cannot be unpacked: {error}; pack it again") from error
    except OSError as error:
        raise StoreError(disk.explain(error, path)) from error
    if not (batch.files or batch.facts or batch.skipped or batch.index):
        raise StoreError(f"there are no memories in {path}: no .md files and no mem0 export")
    return batch


def _folder_files(root: Path) -> Iterator[FoundFile]:
    """Yield every Markdown file below a folder, in a fixed order; links are not followed."""
    pairs: list[tuple[str, Path]] = []
    for folder, below, names in os.walk(root):
        relative = Path(folder).relative_to(root)
        below[:] = sorted(name for name in below if not name.startswith(".") and name not in NOT_MEMORIES)
        if len(relative.parts) >= MAX_DEPTH:
            below.clear()
        pairs += [
            ((relative / name).as_posix(), Path(folder) / name)
            for name in sorted(names)
            if name.endswith(".md") and not name.startswith(".")
        ]
        if len(pairs) > MAX_FILES:
            raise StoreError(f"{root} holds more than {MAX_FILES:,} files; name the memory folder itself")
    return _opened(pairs)


def _opened(pairs: Iterable[tuple[str, Path]]) -> Iterator[FoundFile]:
    total = 0
    for file, path in pairs:
        if path.is_symlink():
            yield SkippedFile(file, "is a symlink; only real files are imported")
            continue
        try:
            head = read_head(str(path), whole=True)
            total += len(head.data)
            yield ImportFile(file, head.data, head.mtime_ns)
        except NotAMemory as reason:
            yield SkippedFile(file, str(reason))
        except OSError as error:
            yield SkippedFile(file, f"cannot be read: {error.strerror}")
        if total > MAX_TOTAL_BYTES:
            raise StoreError(f"there are more than {MAX_TOTAL_BYTES:,} bytes of notes; import them in parts")


def _packed_files(path: Path) -> Iterator[FoundFile]:
    """Yield every Markdown file of an archive, without unpacking it to disk."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise StoreError(f"{path} is not a file or a folder that memories can be read from")
    if not tarfile.is_tarfile(path):
        raise StoreError(f"{path} is no folder, .md file, .tar.gz or .json; those can be imported")
    with tarfile.open(path) as packed:
        for number, member in enumerate(packed):
            if number > MAX_FILES or member.offset_data + member.size > MAX_TOTAL_BYTES:
                limits = f"{MAX_FILES:,} files or {MAX_TOTAL_BYTES:,} bytes"
                raise StoreError(f"{path} holds more than {limits}; pack the memory folder alone")
            name = PurePosixPath(member.name)
            if name.suffix != ".md" or not (member.isfile() or member.issym() or member.islnk()):
                continue
            if name.is_absolute() or ".." in name.parts:
                yield SkippedFile(member.name, "has a name that leaves its folder")
            elif any(part.startswith(".") for part in name.parts):
                continue
            elif not member.isfile():
                yield SkippedFile(str(name), "is a link; only real files are imported")
            elif member.size > MAX_TOPIC_BYTES:
                yield SkippedFile(
                    str(name), f"is {member.size:,} bytes; a memory has at most {MAX_TOPIC_BYTES:,}"
                )
            else:
                content = packed.extractfile(member)
                data = content.read() if content else b""
                # The time may be missing or out of range.
                written = int(member.mtime * _SECOND_NS) if 0 < member.mtime < _MAX_SECONDS else None
                yield ImportFile(str(name), data, written)


def _memory_folder(found: Iterable[FoundFile], path: Path) -> ImportBatch:
    """Return the files of the only memory folder that was found; without an index, all files."""
    everything = list(found)
    sources = [one for one in everything if isinstance(one, ImportFile)]
    skipped = [one for one in everything if isinstance(one, SkippedFile)]
    homes = sorted(
        {_folder_of(one.file) for one in sources if one.file.rpartition("/")[2] == INDEX_FILE},
        key=lambda folder: (folder.count("/"), folder),
    )
    top = [
        folder for folder in homes if not any(folder.startswith(other) for other in homes if other != folder)
    ]
    if len(top) > 1:
        named = ", ".join(folder.rstrip("/") for folder in top[:3])
        raise StoreError(f"{path} holds {len(top)} memory folders ({named}, …); name one of them")
    folders = {one.file.partition("/")[0] + "/" if "/" in one.file else "" for one in sources}
    # Without an index it is the folder that contains all notes of an archive.
    shared = folders.pop() if len(folders) == 1 else ""
    root = top[0] if top else shared
    inside = [replace(one, file=one.file.removeprefix(root)) for one in sources if one.file.startswith(root)]
    outside = len(sources) - len(inside)
    if outside:
        skipped.append(SkippedFile(f"{outside} more", f"not in {root.rstrip('/')}, the memory folder"))
    return ImportBatch(
        files=tuple(one for one in inside if one.file != INDEX_FILE),
        index=next((one.data for one in inside if one.file == INDEX_FILE), None),
        skipped=tuple(skipped),
    )


def _facts(path: Path) -> ImportBatch:
    if path.stat().st_size > MAX_TOTAL_BYTES:
        raise StoreError(f"{path} is larger than {MAX_TOTAL_BYTES:,} bytes; split it")
    facts: list[ImportedFact] = []
    skipped: list[SkippedFile] = []
    for number, item in enumerate(_items(path), start=1):
        fact = _fact(item)
        if fact is None:
            skipped.append(SkippedFile(f"{path.name}, item {number}", "has no text under `memory` or `text`"))
        else:
            facts.append(fact)
    return ImportBatch(facts=tuple(facts), skipped=tuple(skipped))


def _items(path: Path) -> list[Json]:
    """Return the memories in a JSON document: a list, or an object with the list under a known name."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
        if path.suffix == ".jsonl":
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        value: Json = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path} is not JSON: {error}; export it again") from error
    if isinstance(value, dict):
        value = next((value[key] for key in ("results", "memories", "data") if key in value), None)
    if not isinstance(value, list):
        raise StoreError(f"{path} holds no list of memories; a mem0 export is a list or has `results`")
    return value


def _fact(item: Json) -> ImportedFact | None:
    if not isinstance(item, dict):
        return None
    said = item.get("memory") or item.get("text") or item.get("content")
    if not isinstance(said, str) or not said.strip():
        return None
    about = item.get("metadata")
    metadata = about if isinstance(about, dict) else {}
    kind = metadata.get("type")
    plain = {"id", "memory", "text", "content", "metadata", "created_at", "updated_at", "hash", "score"}
    rest: JsonObject = {
        key: value for key, value in item.items() if key not in plain and value not in (None, [])
    }
    return ImportedFact(
        id=str(item.get("id") or ""),
        text=said.encode(errors="replace").decode(),
        kind=kind if isinstance(kind, str) else "",
        created=parse_timestamp(_word(item.get("created_at"))),
        modified=parse_timestamp(_word(item.get("updated_at"))),
        rest=rest | {key: value for key, value in metadata.items() if key != "type"},
    )


def _word(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _folder_of(file: str) -> str:
    folder, slash, _ = file.rpartition("/")
    return folder + slash
