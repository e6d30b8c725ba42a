"""Results as the tools gave them, where a session of ours had put less into the conversation (P7, C4, C7).

Without this a replay of nacre's own sessions would find hardly anything to save: it was saved already.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from nacre.layers.l1_offload.offload import DUPLICATE, OFFLOAD, REREAD
from nacre.messages.blocks import Block, Text, ToolResult
from nacre.messages.records import Noted, Record, Said
from nacre.replay.schema import Step
from nacre.store.results import FOLDER


def made_whole(steps: Sequence[Step], records: Iterable[Record], log: Path) -> tuple[tuple[Step, ...], int]:
    """The steps with whole results, and how many could not be had because their files are gone."""
    notes = {
        str(record.fact("call")): record
        for record in records
        if isinstance(record, Noted) and record.kind in {OFFLOAD, DUPLICATE, REREAD}
    }
    if not notes:
        return tuple(steps), 0
    work = _Work(notes, log)
    return tuple(
        replace(step, heard=tuple(work.restored(said) for said in step.heard)) for step in steps
    ), work.lost


class _Work:
    """Restores results in the order they came, because a later one may refer to an earlier one."""

    def __init__(self, notes: dict[str, Noted], log: Path) -> None:
        self._notes = notes
        self._log = log
        self._texts: dict[str, str] = {}
        """Whole texts by the call they answered."""
        self.lost = 0

    def restored(self, said: Said) -> Said:
        return replace(said, blocks=tuple(self._block(block) for block in said.blocks))

    def _block(self, block: Block) -> Block:
        if not isinstance(block, ToolResult):
            return block
        whole = self._whole(block)
        self._texts[block.call_id] = block.text if whole is None else whole
        if whole is None:
            return block
        others = (part for part in block.content if not isinstance(part, Text))
        return replace(block, content=(Text(whole), *others))

    def _whole(self, result: ToolResult) -> str | None:
        note = self._notes.get(result.call_id)
        if note is None:
            return None
        if note.kind != OFFLOAD:
            earlier = self._texts.get(str(note.fact("of")))
            # Of a file that was read again only the changes are in the log: the text they were made to, and
            # they, have all its words.
            return f"{earlier}\n{result.text}" if earlier and note.kind == REREAD else earlier
        whole = _kept(Path(str(note.fact("path"))), self._log)
        self.lost += whole is None
        return whole


def _kept(path: Path, log: Path) -> str | None:
    """What is in a result's file: where the log says or, in a home that was moved, beside the log."""
    beside = log.with_suffix("") / FOLDER / path.name
    places = [beside, *([path] if path.parent.name == FOLDER else [])]
    for place in places:
        try:
            text = place.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        return _joined(text) if place.suffix == ".json" else text
    return None


def _joined(wire: str) -> str:
    """The texts of a result that was kept as a list of them."""
    try:
        return "\n".join(str(part["text"]) for part in json.loads(wire))
    except (ValueError, TypeError, KeyError):
        return wire
