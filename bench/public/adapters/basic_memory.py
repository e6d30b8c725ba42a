"""basic-memory through its MCP server, with its full-text search: its embeddings need a download.

It needs Python 3.12, so that its command is named with BASIC_MEMORY_COMMAND.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal

from bench.public.adapter import SHOWN, Adapter, Hit, SavedMemory, Turn

PROJECT = "main"


def command() -> str:
    return os.environ.get("BASIC_MEMORY_COMMAND", "") or shutil.which("basic-memory") or ""


class BasicMemory(Adapter):
    name = "basic-memory"
    how = "`write_note` and `search_notes` of its MCP server, full-text search only"

    @classmethod
    def version(cls) -> str:
        if not command():
            raise ModuleNotFoundError("basic-memory: set BASIC_MEMORY_COMMAND to its command")
        said = subprocess.run([command(), "--version"], capture_output=True, text=True, check=True).stdout
        return f"basic-memory {said.split()[-1]}"

    def __init__(self, folder: Path, *, project: Path | None = None) -> None:
        super().__init__(folder, project=project)
        from mcp import Client, StdioServerParameters
        from mcp.client.stdio import stdio_client

        environ = {
            "HOME": str(folder), "PATH": os.environ["PATH"], "BASIC_MEMORY_HOME": str(folder / "notes"),
            "BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": "false", "BASIC_MEMORY_LOG_LEVEL": "ERROR",
        }  # fmt: skip
        self._log = (folder / "log").open("w", encoding="utf-8")
        server = StdioServerParameters(command=command(), args=["mcp"], env=environ)
        self._enter = start_blocking_portal()
        self._portal = self._enter.__enter__()
        client = Client(stdio_client(server, errlog=self._log), mode="legacy")
        self._manager = self._portal.wrap_async_context_manager(client)
        self._client: Any = self._manager.__enter__()
        self._count = 0

    def save(self, memory: SavedMemory) -> str:
        self._count += 1
        title = f"{memory.title or 'Note'} {self._count}"
        said = self._call("write_note", title=title, content=memory.whole, directory="bench")
        return str(said["permalink"])

    def search(self, message: str) -> list[Hit]:
        found = self._call("search_notes", query=message, page_size=SHOWN, entity_types=["entity"])
        results = found.get("results", []) if isinstance(found, dict) else []
        return [Hit(one["permalink"], str(one.get("content") or one["title"])) for one in results[:SHOWN]]

    def write(self, statement: str, said: Sequence[Turn]) -> bool:
        return bool(self.save(SavedMemory(text=statement, modified=said[-1].at)))

    def close(self) -> None:
        self._manager.__exit__(None, None, None)
        self._enter.__exit__(None, None, None)
        self._log.close()

    def _call(self, tool: str, **arguments: object) -> Any:
        asked = {**arguments, "project": PROJECT, "output_format": "json"}
        done = self._portal.call(self._client.call_tool, tool, asked)
        if done.structured_content is not None:
            return done.structured_content.get("result", done.structured_content)
        return json.loads(done.content[0].text)
