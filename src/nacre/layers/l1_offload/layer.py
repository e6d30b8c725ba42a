"""Layer 1: moves large tool results to disk before they are recorded and notifies the user (C4 to C8)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from nacre import prompts
from nacre.layers.l1_offload.offload import DUPLICATE, OFFLOAD, REREAD, is_large, offload
from nacre.layers.l1_offload.policy import OffloadSettings
from nacre.layers.l1_offload.references import ResultsInView
from nacre.messages.blocks import Json, Text, ToolResult
from nacre.messages.records import Said
from nacre.messages.view import View
from nacre.session.layer import Attachment, Layer
from nacre.store.tool_results import (
    CLEARED,
    OPENING,
    USUAL,
    Advice,
    ToolResultStore,
    as_result_store,
    pointed_to,
)

GONE = "offload_gone"
"""Kind of the note that lists calls whose files are missing."""


MOVED = "offload_moved"
"""Kind of the note that holds the new folder of files that were moved."""


RESULTS_GONE = prompts.load(__package__, "results_gone")


RESULTS_MOVED = prompts.load(__package__, "results_moved")


NAMED_FILES = 5
"""Number of missing files that are listed by name."""


class Offload(Layer):
    """Layer 1: moves large results to disk before they are recorded; owned by one session."""

    log_kinds = {
        # A note follows the result it belongs to, so both are kept or dropped together.
        OFFLOAD: "drop",
        DUPLICATE: "drop",
        REREAD: "drop",
        GONE: "drop",
        MOVED: "drop",
        "offload_refused": "drop",
    }

    def __init__(
        self,
        results: ToolResultStore | str | os.PathLike[str],
        settings: OffloadSettings | None = None,
        *,
        own: Mapping[str, float] | None = None,
        advice: Advice = USUAL,
    ) -> None:
        """Keep large results in a store or a directory.

        `own` are limits that tools set for themselves, by name; `advice` tells the model how to read a file.
        """
        self._store = as_result_store(results)
        self._settings = settings or OffloadSettings()
        self._own = own or {}
        self._advice = advice
        self._seen = ResultsInView()
        self._has_refused = False
        self._has_looked_for_files = False

    def for_fork(self) -> Offload:
        """Return a layer whose references point only to results in the view of the fork (F2)."""
        return Offload(self._store, self._settings, own=self._own, advice=self._advice)

    async def filter(self, said: Said, view: View) -> tuple[Said, Sequence[Attachment]]:
        """Return the record with its large results replaced, and a note for each change."""
        if not any(isinstance(block, ToolResult) for block in said.blocks):
            return said, ()
        seen = self._seen.follow(view)
        work = partial(offload, said, seen, self._store, self._settings, own=self._own, advice=self._advice)
        done = await asyncio.to_thread(work) if is_large(said, self._settings, self._own) else work()
        extras = [Attachment(kind=act.kind, facts=act.facts, notice=act.notice) for act in done.acts]
        if done.refused and not self._has_refused:
            self._has_refused = True
            notice = f"Long results stay in the conversation, because they cannot be kept: {done.refused}"
            extras.append(Attachment(kind="offload_refused", facts={"reason": done.refused}, notice=notice))
        return done.said, extras

    async def attach(self, said: Said, view: View) -> Sequence[Attachment]:
        """Attach to the first prompt of a session a list of offloaded files that are missing.

        Only a resumed session can have lost files without its own doing.
        """
        if self._has_looked_for_files or any(isinstance(block, ToolResult) for block in said.blocks):
            return ()
        self._has_looked_for_files = True
        if not any(view.last_noted(kind) for kind in (OFFLOAD, CLEARED)):
            return ()
        return await asyncio.to_thread(_missing_files, view, self._store)


def _missing_files(view: View, store: ToolResultStore) -> list[Attachment]:
    """Return attachments about files that are not at the path in the view; each is reported once."""
    reported: set[Json] = set()
    for note in view.noted(GONE):
        calls = note.fact("calls")
        reported.update(one for one in (calls if isinstance(calls, list) else ()) if isinstance(one, str))
    noted = {str(note.fact("call")): str(note.fact("path")) for note in view.noted(OFFLOAD)}
    replaced = view.replaced
    paths: dict[str, str | None] = {}
    for result in (part.block for item in view.items for part in item.parts):
        if not isinstance(result, ToolResult) or result.call_id in reported:
            continue
        first = result.content[0] if result.content else None
        if replaced.get(result.call_id) == CLEARED:
            paths[result.call_id] = pointed_to(result.text)
        elif isinstance(first, Text) and first.text.startswith(OPENING):
            paths[result.call_id] = noted.get(result.call_id)
    lost = {call: path for call, path in paths.items() if path and not Path(path).is_file()}
    # The home may have been copied to another path or machine together with the files.
    here = {path.path.name for path in store.held()} if lost else set()
    gone = {call: path for call, path in lost.items() if Path(path).name not in here}
    folder = str(store.folder)
    attachments = []
    if len(gone) < len(lost) and not any(note.fact("folder") == folder for note in view.noted(MOVED)):
        notice = f"Files of earlier tool results are now in {folder}; the model was told."
        text = prompts.render(RESULTS_MOVED, folder=folder)
        attachments.append(Attachment(kind=MOVED, text=text, facts={"folder": folder}, notice=notice))
    if gone:
        named = list(gone.values())[:NAMED_FILES]
        more = [f"and {len(gone) - len(named):,} more"] if len(gone) > len(named) else []
        text = prompts.render(RESULTS_GONE, paths="\n".join([*named, *more]))
        of = "of earlier tool results"
        notice = (
            f"{f'1 file {of} is' if len(gone) == 1 else f'{len(gone):,} files {of} are'} gone "
            f"({named[0]}{', …' if len(gone) > 1 else ''}); "
            "the model was told to call the tools again where it needs them."
        )
        attachments.append(Attachment(kind=GONE, text=text, facts={"calls": [*gone]}, notice=notice))
    return attachments
