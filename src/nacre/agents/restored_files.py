"""Files read again after a compaction: those that may be, as Read shows them, within their bounds (C21)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nacre import prompts
from nacre.agents.hands import Hands
from nacre.agents.knowing import Known
from nacre.agents.privacy import StaysHere
from nacre.errors import ToolError
from nacre.layers.l1_offload.in_view import READER
from nacre.layers.l1_offload.reread import is_numbered
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.memory.neutral import neutralise, one_line
from nacre.memory.staying import Staying
from nacre.messages.blocks import JsonObject
from nacre.messages.pairing import Item
from nacre.messages.results import Answered, answered
from nacre.messages.summary import Fragment
from nacre.messages.tokens import estimate_text
from nacre.settings import Settings
from nacre.tools.read import ReadSettings, read_tool
from nacre.tools.workspace import Version, Workspace, expecting

RESTORED_FILE = prompts.load(__package__, "restored_file")
WRITER = "Write"
"""The tool whose call itself shows the file."""
LEAST_TOKENS = 300
"""Less than this of a file, with the words around it, says too little."""
_REMARK = re.compile(r"\[(?:Stopped here|More lines follow).*?offset=(\d+)\.\]\Z")
_LONG_LINE = "more characters in this line]"
"""How Read ends a line that it did not show whole."""


@dataclass(frozen=True, slots=True)
class FileAgain:
    """A file as it is now."""

    path: Path
    fragment: Fragment
    version: Version | None
    """Set where the model sees all of it, letter by letter: it may be changed without another look."""


class FileReader:
    """Reads files on behalf of the model, and only what a call of Read could have without a question."""

    def __init__(self, hands: Hands, known: Known, settings: Settings, *, leaves: bool) -> None:
        self._hands = hands
        self._stays = known.stays if leaves else StaysHere()
        # Memories are recalled, results are pointed to, logs are neither: none of them is a file of the work.
        self._not_these = [
            *(memory.location.directory.resolve() for memory in known.memories),
            *(place.resolve() for place in hands.workspace.owned),
            (settings.home / "projects").resolve(),
        ]

    async def read(
        self, paths: Iterable[Path], *, tokens: int, settings: CompactSettings, without: Iterable[Path] = ()
    ) -> list[FileAgain]:
        """The first few that can be read; what is gone, denied, binary or too large is passed over."""
        room, hidden = min(tokens, settings.files_tokens), set(without)
        staying = await self._stays.now()
        found: list[FileAgain] = []
        for path in paths:
            if len(found) == settings.max_files or room < LEAST_TOKENS:
                break
            if path in hidden or any(path.is_relative_to(place) for place in self._not_these):
                continue
            again = await self._again(path, min(room, settings.file_tokens), staying)
            if again is not None:
                found.append(again)
                room -= estimate_text(again.fragment.text)
        return found

    async def _again(self, path: Path, tokens: int, staying: Staying) -> FileAgain | None:
        workspace = self._hands.workspace.clone()  # so that nobody takes it for read before it stands there
        shown = one_line(str(path))
        frame = estimate_text(prompts.render(RESTORED_FILE, path=shown, lines="")) + LEAST_TOKENS // 10
        reader = read_tool(workspace, ReadSettings(tokens=max(1, tokens - frame)))
        arguments: JsonObject = {"file_path": str(path)}
        decision = self._hands.guard.policy.decide(reader, arguments, self._hands.workspace)
        if decision.effect != "allow":
            return None
        workspace.forget([path])
        try:
            with expecting(path):
                lines = str(await reader.call(arguments))
        except ToolError:
            return None
        version = workspace.seen(path)
        if version is None or version.digest is None:
            return None
        told = neutralise(staying.without(_bounded(lines)))
        is_whole = told == lines and _LONG_LINE not in lines
        text = prompts.render(RESTORED_FILE, path=shown, lines=told)
        if estimate_text(text) > tokens:
            return None
        return FileAgain(
            path, Fragment(kind="file", name=str(path), text=text), version if is_whole else None
        )


def visible_in(kept: Sequence[Item], workspace: Workspace) -> frozenset[Path]:
    """Files of which a read, or the call that wrote them, stands in these items."""
    found: set[Path] = set()
    for one in answered(kept):
        given = one.call.input.get("file_path")
        if isinstance(given, str) and _shows(one):
            try:
                found.add(workspace.locate(given))
            except ToolError:
                continue
    return frozenset(found)


def _shows(one: Answered) -> bool:
    """Whether the model can read the file off it: a pointer or a list of changes does not do."""
    if one.result.is_error:
        return False
    return one.call.name == WRITER or (one.call.name == READER and is_numbered(one.result.text))


def _bounded(lines: str) -> str:
    """The same with a remark of our own where Read stopped: it was not the tool's bound that cut it."""
    return _REMARK.sub(r"[Cut here for want of room; Read goes on with offset=\1.]", lines)
