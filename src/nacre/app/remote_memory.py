"""The memory on a server (`nacre serve`), with the methods of `Memory` that programs use (S10)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import quote

import httpx2

from nacre.errors import ConfigError, StoreError, VersionConflict
from nacre.memory.format.entry import Entry, MemoryChange, MemoryDraft, Origin
from nacre.memory.memory import BY_PROGRAM, MAX_FOUND, Commits, Diffs, Entries, Findings, Saved
from nacre.memory.recall.base import (
    MAX_PICKS,
    AttachedMemory,
    Drift,
    LeftOut,
    RankedMemory,
    Recalled,
    Reference,
)
from nacre.memory.similarity import ScoredEntry
from nacre.messages.blocks import JsonObject
from nacre.store.history import Commit, FileDiff

SECONDS = 70.0
"""Time for an answer, longer than the server's own limit."""
TRIES = 4
MAX_WAIT_SECONDS = 10.0
"""Longest wait that a server can ask for between two tries."""
PAGE = 500


class MemoryClient:
    """Sends requests to the HTTP API; each is tried again if the server is busy or the connection breaks."""

    def __init__(self, url: str, key: str, *, space: str = "user") -> None:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"{url!r} is no address of a server; it begins with http:// or https://")
        if not key:
            raise ConfigError("a server needs a key; `nacre keys create` makes one there")
        if not key.isascii() or not key.isprintable():
            raise ConfigError("the key of the server has characters that no key has; copy it again")
        self.url = url.rstrip("/")
        self.space = space
        self._client = httpx2.AsyncClient(
            base_url=f"{self.url}/v1", headers={"Authorization": f"Bearer {key}"}, timeout=SECONDS
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, object] | None = None,
        query: Mapping[str, str | int] | None = None,
        if_version: str | None = None,
    ) -> dict[str, Any]:
        """Return the answer; raises the exceptions of the local memory."""
        headers = {} if method == "GET" else {"Idempotency-Key": secrets.token_hex(16)}
        if if_version:
            headers["If-Match"] = f'"{if_version}"'
        for left in reversed(range(TRIES)):
            try:
                answer = await self._client.request(
                    method, path, json=body, params={"space": self.space, **(query or {})}, headers=headers
                )
            except httpx2.TransportError as error:
                if not left:
                    what = str(error) or type(error).__name__
                    raise StoreError(
                        f"{self.url} does not answer ({what}); is `nacre serve` running?"
                    ) from error
                await asyncio.sleep(0.1 * (TRIES - left))
                continue
            wait = answer.headers.get("retry-after", "")
            if not left or not wait.isdigit() or answer.is_success:
                break
            await asyncio.sleep(min(float(wait), MAX_WAIT_SECONDS))
        try:
            found = answer.json()
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise StoreError(
                f"{self.url} answers {answer.status_code} without JSON; is it a server of nacre?"
            )
        if not answer.is_success:
            raise _as_error(answer.status_code, str(found.get("detail", "")))
        return found


def _as_error(status: int, detail: str) -> Exception:
    """Return the exception that the local memory would raise."""
    match status:
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
            return ConfigError(f"the server refuses the key: {detail}")
        case HTTPStatus.CONFLICT:
            return VersionConflict(detail)
        case _:
            return StoreError(detail)


class RemoteMemory:
    """A memory on a server; open one with `open_memory("https://…", key=…)`."""

    def __init__(self, url: str, key: str, *, space: str = "user") -> None:
        self.client = MemoryClient(url, key, space=space)

    async def close(self) -> None:
        """Close the connections."""
        await self.client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def list(self) -> Entries:
        """Return every entry with its body, newest first."""
        found: Entries = []
        query: dict[str, str | int] = {"limit": PAGE, "bodies": "true"}
        while True:
            page = await self.client.call("GET", "/memories", query=query)
            found += [entry_of(row) for row in page["memories"]]
            if page["next"] is None:
                return found
            query["cursor"] = page["next"]

    async def search(self, query: str, *, limit: int = MAX_FOUND) -> Findings:
        """Return the entries that match a query, best first, untrusted ones included."""
        if not query.strip():
            return []
        body = {"query": query, "limit": limit}
        found = await self.client.call("POST", "/memories/search", body=body)
        return [ScoredEntry(entry_of(row), row["score"]) for row in found["memories"]]

    async def recall(self, message: str, *, limit: int = MAX_PICKS) -> Recalled:
        """Return the few memories that help with a message, as text to attach to it, and those left out."""
        found = await self.client.call("POST", "/recall", body={"query": message, "limit": limit})
        return Recalled(
            query=found["query"],
            picks=tuple(_pick(row) for row in found["picks"]),
            left_out=tuple(_left_out(row) for row in found["ranked"] if not row["attached"]),
            took_ms=found["took_ms"],
            skipped=found["skipped"] or "",
            problem=found["problem"] or "",
        )

    async def find(self, wanted: str) -> Entry:
        """Return one entry by its file, its name, or a query that only it matches."""
        return entry_of(await self.client.call("POST", "/memories/find", body={"wanted": wanted}))

    async def save(self, draft: MemoryDraft | str, change: MemoryChange = BY_PROGRAM) -> Saved:
        """Write a memory and its line in the index; a string is saved as the body."""
        draft = MemoryDraft(body=draft) if isinstance(draft, str) else draft
        if not draft.body.strip():
            raise StoreError("there is nothing to save: the text is empty")
        if draft.sources or draft.is_supported:
            raise StoreError("a server takes no sources and no support of a memory; leave them out")
        body = {
            "text": draft.body, "name": draft.name, "description": draft.description, "type": draft.kind,
            "origin": draft.origin, "file": draft.file, "pinned": draft.pinned,
            "local_only": draft.local_only, "reason": change.reason,
        }  # fmt: skip
        return _saved(await self.client.call("POST", "/memories", body=body))

    async def forget(
        self, wanted: str, change: MemoryChange = BY_PROGRAM, *, if_version: str | None = None
    ) -> tuple[Entry, str]:
        """Remove an entry and its line in the index; return it and the commit. The history keeps it."""
        file = (await self.find(wanted)).file
        found = await self.client.call(
            "DELETE", f"/memories/{quote(file)}", query={"reason": change.reason}, if_version=if_version
        )
        return entry_of(found["entry"]), found["commit"]

    async def undo(self, commit: str = "", change: MemoryChange = BY_PROGRAM) -> str:
        """Undo a commit of `log`, by default the newest in force, and return the commit that does so."""
        body = {"commit": commit, "reason": change.reason}
        return cast("str", (await self.client.call("POST", "/undo", body=body))["commit"])

    async def correct(
        self, wanted: str, text: str, change: MemoryChange = BY_PROGRAM, *, origin: Origin | None = None
    ) -> Saved:
        """Replace the text of an entry, or one value in it; the history keeps the old text (M14c)."""
        file = (await self.find(wanted)).file
        body = {"text": text, "origin": origin, "reason": change.reason}
        return _saved(await self.client.call("POST", f"/memories/{quote(file)}/correct", body=body))

    async def log(self, *, limit: int = 50, file: str | None = None) -> Commits:
        """Return the commits of the history, newest first."""
        path = f"/memories/{quote(file)}/history" if file else "/history"
        found = await self.client.call("GET", path, query={"limit": min(limit, PAGE)})
        return [
            Commit(
                id=row["commit"],
                author=row["author"],
                reason=row["reason"],
                session=row["session"],
                at=datetime.fromisoformat(row["at"]),
                files=tuple(row["files"]),
            )
            for row in found["commits"]
        ]

    async def diff(self, commit: str) -> Diffs:
        """Return what a commit changed."""
        found = await self.client.call("GET", f"/history/{quote(commit, safe='')}")
        return [
            FileDiff(file=row["file"], before=row["before"], after=row["after"], text=row["diff"])
            for row in found["files"]
        ]


def entry_of(row: JsonObject) -> Entry:
    """Return the entry that the server describes."""
    given = cast("dict[str, Any]", row)
    return Entry(
        file=given["file"],
        name=given["name"],
        description=given["description"],
        kind=given["type"],
        body=given.get("body", ""),
        created=_time(given.get("created")),
        modified=_time(given["modified"]),
        origin=given["origin"],
        pinned=bool(given["pinned"]),
        local_only=bool(given.get("local_only")),
        sources=tuple(given.get("sources", ())),
        bytes=given["bytes"],
        indexed=given["indexed"],
    )


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _saved(found: dict[str, Any]) -> Saved:
    before = found.get("before")
    return Saved(
        entry=entry_of(found["entry"]),
        commit=found["commit"],
        before=entry_of(before) if before else None,
        feedback=found.get("feedback", ""),
    )


def _pick(row: dict[str, Any]) -> AttachedMemory:
    drift = row["drift"]
    references = tuple(Reference(**each) for each in drift["references"]) if drift else ()
    path = Path(row["path"])
    ranked = RankedMemory(
        entry=Entry(file=row["file"], name=row["name"]),
        directory=path.parents[row["file"].count("/")],
        score=row["score"],
        confidence=row["confidence"],
        parts=row["parts"],
        superseded_by=row["superseded_by"] or "",
    )
    return AttachedMemory(
        ranked=ranked,
        text=row["text"],
        age_days=row["age_days"],
        bytes=row["bytes"],
        drift=None if drift is None else Drift(references=references),
    )


def _left_out(row: dict[str, Any]) -> LeftOut:
    return LeftOut(row["file"], row["why"], row["score"], row["confidence"], Path(row["path"]))
