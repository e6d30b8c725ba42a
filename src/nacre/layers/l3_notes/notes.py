"""The notes file of a session, and its update by a fork (C13 to C15)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
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
    filled,
    injected,
    is_bare,
    mended,
    too_long,
)
from nacre.loop.fork import Fork, ForkResult, ForkTask, RequestSource
from nacre.messages.blocks import Text
from nacre.messages.digest import show_deeds
from nacre.messages.draft import Draft
from nacre.messages.facts import Facts
from nacre.messages.pairing import Item
from nacre.messages.records import Compacted
from nacre.messages.rounds import cuts
from nacre.messages.tokens import estimate_text
from nacre.messages.view import View
from nacre.store import disk
from nacre.tools.policy import Narrowing

FOLDER = "session-memory"
NAME = "summary.md"
"""Where a session keeps its notes, beside its log."""
ASIDE = ".summary.writing"
"""Only the session's own process writes here, so that one name is enough."""
_MARK = re.compile(r"<!-- by rule ([0-9a-f]{16}) -->\n?\Z")


@dataclass(frozen=True, slots=True)
class NotesFile:
    """One session's notes on disk."""

    path: Path

    @staticmethod
    def of(folder: Path) -> NotesFile:
        """The notes of the session whose folder this is; links on the way to it are followed now, once."""
        return NotesFile(Path(os.path.realpath(folder / FOLDER)) / NAME)

    def read(self) -> str:
        """What it says; nothing if it is not there. Raises `StoreError` for what is no file of ours."""
        try:
            descriptor = disk.open_regular(self.path, os.O_RDONLY | os.O_NOFOLLOW)
            with os.fdopen(descriptor, "rb") as file:
                return file.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise StoreError(disk.explain(error, self.path)) from error

    def write(self, text: str) -> None:
        """Put a text in its place, all or nothing; an empty one takes the file away."""
        try:
            if not text:
                self.path.unlink(missing_ok=True)
                return
            disk.make_folder(self.path.parent)
            # What a power cut takes can be had again from the log: no need to wait for the disk.
            disk.replace_file(self.path, text.encode(errors="replace"), temp_name=ASIDE, sync=False)
        except OSError as error:
            raise StoreError(disk.explain(error, self.path)) from error


def marked(text: str) -> str:
    """A text with the line that says that rules wrote it, and that nobody has changed it since."""
    return f"{text}\n<!-- by rule {_digest(text)} -->\n"


def unmarked(text: str) -> str:
    """A text without that line."""
    return _MARK.sub("", text)


def is_by_rule(text: str) -> bool:
    """Whether rules wrote every word of it: then they may write it again."""
    mark = _MARK.search(text)
    return mark is not None and mark[1] == _digest(text[: mark.start()].removesuffix("\n"))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()


SOURCE: RequestSource = "session_memory"
"""Under this name the fork is booked."""
TOOLS = frozenset({"Edit", "Read"})
"""Read, for an edit that did not go as it was meant to."""
CONDENSE = prompts.load("nacre.layers.l3_notes", "condense")
DONE = prompts.load("nacre.layers.l3_notes", "done")


class NotesUnchangedError(NacreError):
    """The fork left the notes as they were, or emptied them; the old ones are in place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatedNotes:
    """What an update came to."""

    text: str
    covers: str
    """The last record it knew of."""
    forked: ForkResult


async def update(
    view: View,
    file: NotesFile,
    *,
    fork: Fork,
    form: NotesForm,
    since: Facts | None = None,
    settings: NotesSettings = NACRE,
) -> UpdatedNotes:
    """Have a fork of the conversation edit its notes; whatever goes wrong, the old notes are there after it.

    `since` is what was done since the last update, for the fork to be reminded of.
    """
    old = await asyncio.to_thread(file.read)
    start = _starting(old, form)
    await asyncio.to_thread(file.write, start)
    text = ""
    try:
        forked = await fork(_errand(view, file, start, form=form, since=since, settings=settings))
        new = unmarked(await asyncio.to_thread(file.read))
        after = mended(start, new, form.template)
        if new.strip() and after != start and not is_bare(after, form.template):
            text = after
    finally:
        # Small, and done before anything else can happen: a cancelled update leaves no half-written notes.
        file.write(text or old)
    if not text:
        raise NotesUnchangedError("the model was asked to bring the session's notes up to date and did not")
    return UpdatedNotes(text=text, covers=view.items[-1].record_id, forked=forked)


def _starting(old: str, form: NotesForm) -> str:
    """What the fork edits: to quote what rules wrote only to replace it would cost more than it is worth."""
    if not old.strip() or is_by_rule(old):
        return form.template.text
    return mended(old, unmarked(old), form.template)


def _errand(
    view: View, file: NotesFile, start: str, *, form: NotesForm, since: Facts | None, settings: NotesSettings
) -> ForkTask:
    return ForkTask(
        source=SOURCE,
        directive=directive(file, start, form=form, since=since, settings=settings),
        # A place that is a file holds nothing but itself.
        access=Narrowing(tools=TOOLS, writes_in=(file.path,)),
        max_rounds=settings.max_rounds,
        view=view,
        shown_files=(file.path,),
    )


def directive(
    file: NotesFile,
    notes: str,
    *,
    form: NotesForm,
    since: Facts | None = None,
    settings: NotesSettings = NACRE,
) -> str:
    """The one message at the end of the conversation that asks for an update."""
    over = too_long(notes, form.template, settings)
    listed = "\n".join(f"- {heading}: about {tokens:,} tokens" for heading, tokens in over.items())
    condense = prompts.render(CONDENSE, first=next(iter(over)), sections=listed) if over else ""
    deeds = show_deeds(since, settings.deeds_tokens).text if since and since.deeds else ""
    slots = {
        "path": str(file.path),
        "notes": notes.rstrip("\n"),
        "done": prompts.render(DONE, deeds=deeds) if deeds else "",
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
    """The notes as a draft; none where nothing was written, or nobody knows what it covers."""
    text = unmarked(text)
    if covers is None or is_bare(text, template):
        return None
    shown = injected(text, template, settings, where=where)
    return Draft(kind="notes", text=shown, covers=covers, told={"tokens": estimate_text(shown)})


def kept_from(view: View, covers: str, settings: NotesSettings = NACRE) -> int:
    """The place among the view's items at which the kept tail begins; 0 if what is covered is not in view.

    Everything the notes do not know stays. Before it, whole rounds stay until there are enough tokens and
    words, or the cap is reached; a pair of call and result is never split, even if that goes beyond the cap.
    """
    items = view.items
    covered = next((n for n in range(len(items) - 1, -1, -1) if items[n].record_id == covers), None)
    if covered is None:
        return 0
    floor = _behind_summaries(view)
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


def _behind_summaries(view: View) -> int:
    """Where what an earlier compaction put there ends: to keep that would compact nothing."""
    summaries = {one.summary_id or one.id for one in view.records if isinstance(one, Compacted)}
    return 1 + max((n for n, item in enumerate(view.items) if item.record_id in summaries), default=-1)


def _has_text(item: Item) -> bool:
    return any(isinstance(part.block, Text) and part.block.text.strip() for part in item.parts)
