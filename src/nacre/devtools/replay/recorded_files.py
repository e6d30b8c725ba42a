"""The files of a recorded session, as a compaction reads them again: there is no disk to read them from.

What a file holds is known from a whole Read or a Write, and from the edits after it; others are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from nacre import prompts
from nacre.app.restored_context import LEAST_TOKENS, RESTORED_FILE, WRITER
from nacre.layers.l1_offload.references import READER, page_of
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.messages.blocks import ToolCall, ToolResult
from nacre.messages.draft import Fragment
from nacre.messages.pairing import Item
from nacre.messages.records import Record, Said
from nacre.messages.results import answered_calls
from nacre.messages.tokens import estimate_text
from nacre.session.restoration import Restored, Restorer, cut
from nacre.session.session import Session

EDITORS = frozenset({"Edit", "MultiEdit"})


class RecordedFiles(Restorer):
    """Restores the files that a chat would read from disk, within the same limits."""

    def __init__(self, session: Session, settings: CompactSettings) -> None:
        super().__init__(session)
        self._settings = settings

    async def fragments(self, kept: Sequence[Item], tokens: int) -> list[Fragment]:
        found = restored_files(self._session.view.records, kept, tokens=tokens, settings=self._settings)
        self.last = Restored(fragments=tuple(found), kept=kept, files=tuple(Path(one.name) for one in found))
        return found


def restored_files(
    records: Iterable[Record], kept: Sequence[Item], *, tokens: int, settings: CompactSettings
) -> list[Fragment]:
    """Return the files that were used last, newest first, without those that the kept items show."""
    shown = {
        str(one.call.input.get("file_path"))
        for one in answered_calls(kept)
        if one.call.name == WRITER or (one.call.name == READER and page_of(one.result.text) is not None)
    }
    room = min(tokens, settings.files_tokens)
    found: list[Fragment] = []
    for path, text in reversed(_files(records).items()):
        if len(found) == settings.max_files or room < LEAST_TOKENS:
            break
        if path not in shown and text is not None:
            found.append(_fragment(path, text, min(room, settings.file_tokens)))
            room -= estimate_text(found[-1].text)
    return found


def _fragment(path: str, text: str, tokens: int) -> Fragment:
    rows = "\n".join(f"{number}\t{line}" for number, line in enumerate(text.split("\n"), 1))
    room = tokens - estimate_text(prompts.render(RESTORED_FILE, path=path, lines=""))
    framed = prompts.render(RESTORED_FILE, path=path, lines=cut(rows, room))
    return Fragment(kind="file", name=path, text=framed)


def _files(records: Iterable[Record]) -> dict[str, str | None]:
    """Return the text of every file that was read or written, in order of use; None if it is not known."""
    files: dict[str, str | None] = {}
    for call, result in _answered(records):
        path = call.input.get("file_path")
        if not isinstance(path, str) or result.is_error or call.name not in {READER, WRITER, *EDITORS}:
            continue
        text = files.pop(path, None)
        if call.name == WRITER:
            text = str(call.input.get("content", ""))
        elif call.name in EDITORS:
            text = _edited(text, call)
        elif (page := page_of(result.text)) is not None and page.first == 1 and page.remark is None:
            text = "\n".join(page.lines)
        files[path] = text
    return files


def _answered(records: Iterable[Record]) -> Iterator[tuple[ToolCall, ToolResult]]:
    """Yield the calls with their results as they were recorded, before any of them was cleared."""
    calls: dict[str, ToolCall] = {}
    for record in records:
        for block in record.blocks if isinstance(record, Said) else ():
            if isinstance(block, ToolCall):
                calls[block.id] = block
            elif isinstance(block, ToolResult) and block.call_id in calls:
                yield calls[block.call_id], block


def _edited(text: str | None, call: ToolCall) -> str | None:
    """Return the text after an edit; None if it does not contain what the edit replaces."""
    edits = call.input.get("edits")
    for one in edits if isinstance(edits, list) else [call.input]:
        old, new = (one.get("old_string"), one.get("new_string")) if isinstance(one, dict) else (None, None)
        if text is None or not isinstance(old, str) or not isinstance(new, str) or old not in text:
            return None
        text = text.replace(old, new, -1 if isinstance(one, dict) and one.get("replace_all") else 1)
    return text
