"""The notes file of a session, and its update by a fork (C13 to C15)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nacre import prompts
from nacre.errors import NacreError, StoreError
from nacre.layers.l3_notes.policy import NACRE, NotesSettings
from nacre.layers.l3_notes.template import (
    UPDATE,
    NotesForm,
    NotesTemplate,
    asks_for,
    capped,
    filled,
    injected,
    is_bare,
    mended,
    too_long,
)
from nacre.loop.fork import Fork, ForkResult, ForkTask, RequestSource
from nacre.messages.blocks import Text
from nacre.messages.digest import show_actions
from nacre.messages.draft import Draft
from nacre.messages.facts import Facts
from nacre.messages.pairing import Item
from nacre.messages.records import Compacted, Record
from nacre.messages.rounds import cuts
from nacre.messages.tokens import estimate_text
from nacre.messages.view import View
from nacre.store import disk
from nacre.tools.policy import Narrowing

FOLDER = "session-memory"
NAME = "summary.md"
"""Path of the notes below the session's folder."""
ASIDE = ".summary.writing"
"""Temporary file; only the session's own process writes it, so one name is enough."""
_MARK = re.compile(r"<!-- by rule ([0-9a-f]{16}) -->\n?\Z")


@dataclass(frozen=True, slots=True)
class NotesFile:
    """The notes file of one session."""

    path: Path

    @staticmethod
    def of(folder: Path) -> NotesFile:
        """Return the notes file of a session's folder; symbolic links are resolved once, now."""
        return NotesFile(Path(os.path.realpath(folder / FOLDER)) / NAME)

    def read(self) -> str:
        """Return the text, empty if there is no file. Raises `StoreError` if it is not a regular file."""
        try:
            descriptor = disk.open_regular(self.path, os.O_RDONLY | os.O_NOFOLLOW)
            with os.fdopen(descriptor, "rb") as file:
                return file.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise StoreError(disk.explain(error, self.path)) from error

    def write(self, text: str) -> None:
        """Replace the file atomically; an empty text removes it."""
        try:
            if not text:
                self.path.unlink(missing_ok=True)
                return
            disk.make_folder(self.path.parent)
            # Notes lost in a power cut can be written again from the log, so no fsync.
            disk.replace_file(self.path, text.encode(errors="replace"), temp_name=ASIDE, sync=False)
        except OSError as error:
            raise StoreError(disk.explain(error, self.path)) from error


def marked(text: str) -> str:
    """Return the text with a line that marks it as written by rules and unchanged."""
    return f"{text}\n<!-- by rule {_digest(text)} -->\n"


def unmarked(text: str) -> str:
    """Return the text without that line."""
    return _MARK.sub("", text)


def is_by_rule(text: str) -> bool:
    """Return whether rules wrote all of it and may overwrite it."""
    mark = _MARK.search(text)
    return mark is not None and mark[1] == _digest(text[: mark.start()].removesuffix("\n"))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()


SOURCE: RequestSource = "session_memory"
"""Purpose under which the cost of the fork is recorded."""
TOOLS = frozenset({"Edit", "Read"})
"""Read is needed when an edit fails."""
CONDENSE = prompts.load("nacre.layers.l3_notes", "condense")
DONE = prompts.load("nacre.layers.l3_notes", "done")


class NotesUnchangedError(NacreError):
    """Raised when the fork left the notes unchanged or empty; the old notes are restored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatedNotes:
    """The result of an update."""

    text: str
    covers: str
    """Id of the last record the update saw."""
    forked: ForkResult
    cut: tuple[str, ...] = ()
    """Headings of the sections whose oldest lines were removed (C15)."""


async def update(
    view: View,
    file: NotesFile,
    *,
    fork: Fork,
    form: NotesForm,
    covers: str | None = None,
    settings: NotesSettings = NACRE,
) -> UpdatedNotes:
    """Let a fork edit the notes; on any failure the old notes are restored.

    Notes beyond the ceiling are cut before and after (C15): neither file nor request grows without end.
    `covers` is the id of the last record that the notes cover: the fork is reminded of what was done since.
    """
    old = await asyncio.to_thread(file.read)
    # Notes by rule are replaced by the empty template.
    is_new = not old.strip() or is_by_rule(old)
    start = form.template.text if is_new else mended(old, unmarked(old), form.template)
    start, cut = capped(start, form.template, settings)
    await asyncio.to_thread(file.write, start)
    text = ""
    task = ForkTask(
        source=SOURCE,
        directive=directive(
            file, start, form=form, since=Facts.of(records_after(view, covers)), settings=settings
        ),
        # A path that is a file contains only itself.
        access=Narrowing(tools=TOOLS, writes_in=(file.path,)),
        max_rounds=settings.max_rounds,
        ends_with_edits=True,
        max_output=settings.max_output,
        view=view,
        seen_to=None if is_new else covers,
        shown_files=(file.path,),
    )
    try:
        forked = await fork(task)
        new = unmarked(await asyncio.to_thread(file.read))
        after = mended(start, new, form.template)
        if new.strip() and after != start and not is_bare(after, form.template):
            text, cut_after = capped(after, form.template, settings, before=start)
            cut = tuple(dict.fromkeys((*cut, *cut_after)))
    finally:
        # Synchronous on purpose: a cancelled update leaves no half-written notes.
        file.write(text or old)
    if not text:
        raise NotesUnchangedError("the model was asked to bring the session's notes up to date and did not")
    return UpdatedNotes(text=text, covers=view.items[-1].record_id, forked=forked, cut=cut)


def records_after(view: View, covers: str | None) -> Sequence[Record]:
    """Return the records after the last one that the notes cover; all if it is unknown."""
    for place in range(len(view.records) - 1, -1, -1):
        if view.records[place].id == covers:
            return view.records[place + 1 :]
    return view.records


def directive(
    file: NotesFile,
    notes: str,
    *,
    form: NotesForm,
    since: Facts | None = None,
    settings: NotesSettings = NACRE,
) -> str:
    """Return the message that asks the fork for an update."""
    over = too_long(notes, form.template, settings)
    listed = "\n".join(f"- {heading}: about {tokens:,} tokens" for heading, tokens in over.items())
    condense = prompts.render(CONDENSE, first=next(iter(over)), sections=listed) if over else ""
    actions = show_actions(since, settings.actions_tokens).text if since and since.actions else ""
    slots = {
        "path": str(file.path),
        "notes": notes.rstrip("\n"),
        "done": prompts.render(DONE, actions=actions) if actions else "",
        "section_tokens": f"{settings.section_tokens:,}",
        "condense": condense,
    }
    if form.prompt == UPDATE:
        return prompts.render(UPDATE, **slots)
    text = filled(form.prompt, **slots, notesPath=slots["path"], currentNotes=slots["notes"])
    return text if asks_for(form.prompt, "condense") else text + condense


def notes_draft(
    text: str,
    template: NotesTemplate,
    covers: str | None,
    settings: NotesSettings = NACRE,
    *,
    where: str = "",
) -> Draft | None:
    """Return the notes as a draft; None if they are empty or their coverage is unknown."""
    text = unmarked(text)
    if covers is None or is_bare(text, template):
        return None
    shown = injected(text, template, settings, where=where)
    return Draft(kind="notes", text=shown, covers=covers, metadata={"tokens": estimate_text(shown)})


def kept_from(view: View, covers: str, settings: NotesSettings = NACRE) -> int:
    """Return the index of the first item of the kept tail; 0 if the covered record is not in view.

    Everything the notes do not know stays. Before it, whole rounds stay until there are enough tokens and
    words, or the cap is reached; a pair of call and result is never split, even if that goes beyond the cap.
    """
    items = view.items
    covered = next((n for n in range(len(items) - 1, -1, -1) if items[n].record_id == covers), None)
    if covered is None:
        return 0
    # Keeping earlier summaries would compact nothing.
    summaries = {one.summary_id or one.id for one in view.records if isinstance(one, Compacted)}
    floor = 1 + max((n for n, item in enumerate(items) if item.record_id in summaries), default=-1)
    places = [place for place in cuts(items) if floor <= place <= covered + 1]
    place = places.pop() if places else floor
    tokens = sum(item.tokens for item in items[place:])
    texts = sum(map(_has_text, items[place:]))
    while places and (tokens < settings.min_tail_tokens or texts < settings.min_tail_texts):
        more = items[places[-1] : place]
        tokens += sum(item.tokens for item in more)
        if tokens > settings.max_tail_tokens:
            break
        texts += sum(map(_has_text, more))
        place = places.pop()
    return place


def _has_text(item: Item) -> bool:
    return any(isinstance(part.block, Text) and part.block.text.strip() for part in item.parts)
