"""Notes brought up to date by a model: a fork that may edit one file, whose form is mended after it (C14)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from nacre import prompts
from nacre.errors import NacreError
from nacre.layers.l3_notes.budget import too_long
from nacre.layers.l3_notes.configured import UPDATE, Form, asks_for, filled
from nacre.layers.l3_notes.file import NotesFile, is_by_rule, unmarked
from nacre.layers.l3_notes.policy import NACRE, NotesSettings
from nacre.layers.l3_notes.template import is_bare, mended
from nacre.loop.fork import Errand, Fork, Forked, Source
from nacre.messages.facts import Facts
from nacre.messages.skeleton import show_deeds
from nacre.messages.view import View
from nacre.tools.policy import Narrowing

SOURCE: Source = "session_memory"
"""Under this name the fork is booked."""
TOOLS = frozenset({"Edit", "Read"})
"""Read, for an edit that did not go as it was meant to."""
CONDENSE = prompts.load("nacre.layers.l3_notes", "condense")
DONE = prompts.load("nacre.layers.l3_notes", "done")


class NotesUnchangedError(NacreError):
    """The fork left the notes as they were, or emptied them; the old ones are in place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """What an update came to."""

    text: str
    covers: str
    """The last record it knew of."""
    forked: Forked


async def update(
    view: View,
    file: NotesFile,
    *,
    fork: Fork,
    form: Form,
    since: Facts | None = None,
    settings: NotesSettings = NACRE,
) -> Updated:
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
    return Updated(text=text, covers=view.items[-1].record_id, forked=forked)


def _starting(old: str, form: Form) -> str:
    """What the fork edits: to quote what rules wrote only to replace it would cost more than it is worth."""
    if not old.strip() or is_by_rule(old):
        return form.template.text
    return mended(old, unmarked(old), form.template)


def _errand(
    view: View, file: NotesFile, start: str, *, form: Form, since: Facts | None, settings: NotesSettings
) -> Errand:
    return Errand(
        source=SOURCE,
        directive=directive(file, start, form=form, since=since, settings=settings),
        # A place that is a file holds nothing but itself.
        may=Narrowing(tools=TOOLS, writes_in=(file.path,)),
        max_rounds=settings.max_rounds,
        view=view,
        knows=(file.path,),
    )


def directive(
    file: NotesFile, notes: str, *, form: Form, since: Facts | None = None, settings: NotesSettings = NACRE
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
