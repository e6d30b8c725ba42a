"""The list of skills, attached once, then its changes; a compaction restores it (C21)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

from nacre import prompts
from nacre.clock import Clock
from nacre.context.skills import Skill, SkillFolder, find_skills, skill_text
from nacre.errors import OutsideStore, ToolError
from nacre.messages.blocks import JsonObject, ToolResult
from nacre.messages.draft import Fragment
from nacre.messages.pairing import Item
from nacre.messages.records import Noted, Said
from nacre.messages.results import answered_calls
from nacre.messages.transcript import Transcript
from nacre.messages.untrusted_text import neutralise, one_line
from nacre.messages.view import View
from nacre.session.layer import RECORD, WHOLE, Attachment, Layer, digest, digests_in, notes_in_view
from nacre.session.restoration import CUT
from nacre.session.session import Session
from nacre.tools.base import Tool, tool

NAME = "Skill"
SKILL = "skill"
"""Kind of the note that a skill was loaded."""
DESCRIPTION = prompts.load(__package__, "skill")
LOADED = prompts.load(__package__, "skill_loaded")
ARGUMENTS = "$ARGUMENTS"
FOLDER = "${CLAUDE_SKILL_DIR}"
"""Placeholders in a skill for its arguments and for its folder."""
MAX_ARGUMENT_CHARS = 4_000
"""Arguments are a line or two; they are noted in the log, which must not grow by more."""


class SkillRegistry:
    """The skills of one session, searched on disk at each request; mutable."""

    def __init__(
        self, places: Iterable[SkillFolder], *, on_notice: Callable[[str], None] | None = None
    ) -> None:
        """`on_notice` is called once for each problem with a skill."""
        self._places = tuple(places)
        self._on_notice = on_notice
        self._reported: set[str] = set()
        self._log: tuple[Transcript, Clock] | None = None
        self._open_to_tools: Callable[[Path], None] = lambda folder: None

    def look(self) -> dict[str, Skill]:
        """Return all current skills by name."""
        found = find_skills(self._places)
        for line in found.notices:
            if line not in self._reported:
                self._reported.add(line)
                if self._on_notice is not None:
                    self._on_notice(line)
        return found.skills

    def belong_to(self, transcript: Transcript, clock: Clock, open_to_tools: Callable[[Path], None]) -> None:
        """Note loaded skills in this transcript; tools may read folders of earlier ones again."""
        self._log = (transcript, clock)
        self._open_to_tools = open_to_tools
        before = loaded_skills(transcript.view)
        for skill in self.look().values() if before else ():
            if skill.name in before:
                open_to_tools(skill.folder)

    async def load(self, name: str, arguments: str = "") -> str:
        """Return a skill's text for the model; its folder becomes readable, and the log gets a note."""
        skills = await asyncio.to_thread(self.look)
        skill = skills.get(name) or skills.get(name.strip().lstrip("/"))
        if skill is None:
            names = list(skills)
            near = get_close_matches(name, names, n=3) or names[:10]
            hint = f"did you mean {', '.join(near)}?" if near else "there is none any more."
            raise ToolError(f"There is no skill {one_line(name)[:100]!r}; {hint}")
        if len(arguments) > MAX_ARGUMENT_CHARS:
            raise ToolError(f"The arguments are longer than {MAX_ARGUMENT_CHARS:,} characters; shorten them.")
        text = await asyncio.to_thread(shown, skill, arguments)
        self._open_to_tools(skill.folder)
        if self._log is not None:
            transcript, clock = self._log
            facts: JsonObject = {"name": skill.name, "path": str(skill.path), "arguments": arguments}
            await transcript.append(Noted(id=clock.new_id(), at=clock.now(), kind=SKILL, facts=facts))
        return text


def skill_tool(registry: SkillRegistry) -> Tool:
    """Return the tool that loads a skill by name."""

    @tool(name=NAME, description=DESCRIPTION)
    async def load_skill(
        skill: Annotated[str, "The name of the skill, as it is listed."],
        arguments: Annotated[str, "What to do with it, where the skill asks for something."] = "",
    ) -> str:
        return await registry.load(skill, arguments)

    # It limits itself; half a skill with a pointer would make the model read the file instead.
    return replace(load_skill, max_result_chars=math.inf)


def shown(skill: Skill, arguments: str = "") -> str:
    """Return a skill as text for the model; raises `ToolError` if its file cannot be read."""
    try:
        text = neutralise(skill_text(skill))
    except (OSError, OutsideStore) as error:
        raise ToolError(f"The skill {skill.name} cannot be read any more: {error}.") from error
    folder = one_line(str(skill.folder))
    given = neutralise(arguments)
    has_place = ARGUMENTS in text
    text = text.replace(FOLDER, folder).replace(ARGUMENTS, given)
    if given.strip() and not has_place:
        text = f"{text}\n\nArguments: {given}"
    return prompts.render(LOADED, name=skill.name, folder=folder, text=text)


def loaded_skills(view: View) -> dict[str, JsonObject]:
    """Return the facts of all loaded skills by name, the last loaded at the end."""
    found: dict[str, JsonObject] = {}
    for note in view.noted(SKILL):
        if isinstance(name := note.fact("name"), str):
            found.pop(name, None)
            found[name] = note.facts
    return found


SKILLS = "skills"
"""Kind of the note with the skills that the model knows, each with a digest."""
DESCRIPTION_CHARS = 400
"""Maximum length of a description in the list: two or three sentences."""
LIST_CHARS = 12_000
"""Maximum length of all descriptions, about 3,000 tokens in every session; others have only a name."""
LISTED = prompts.load(__package__, "skills_listed")
CHANGED = prompts.load(__package__, "skills_changed")
NEW = prompts.load(__package__, "skills_new")
GONE = prompts.load(__package__, "skills_gone")
ONE_GONE = prompts.load(__package__, "skill_gone")
THE_LIST = "the list of skills"


class Skills(Layer):
    """Tracks which skills the model knows, and attaches changes; owned by one session."""

    log_kinds = {SKILL: "all", SKILLS: "own"}  # every later compaction restores loaded skills

    def __init__(self, session: Session, registry: SkillRegistry, *, is_offered: bool = True) -> None:
        """`is_offered`: the model has the tool for skills; without it all known skills count as gone."""
        self._session = session
        self._registry = registry
        self._is_offered = is_offered
        self._brought: JsonObject = {}

    async def attach(self, said: Said, view: View) -> Sequence[Attachment]:
        """Attach the list to the first prompt and changes to later ones; to results only a lost list."""
        notes = notes_in_view(view, SKILLS)
        is_listed = any(note.fact(WHOLE) is True for note in notes)
        if is_listed and any(isinstance(block, ToolResult) for block in said.blocks):
            return []
        now = await self._now()
        if not is_listed:
            return [Attachment(kind=SKILLS, text=listed(now.values()), facts=_facts(now))] if now else []
        seen = digests_in(notes, SKILLS)
        new = [one for name, one in now.items() if seen.get(name) != _version(one)]
        gone = [name for name, version in seen.items() if version and name not in now]
        if not (new or gone):
            return []
        names = [one.name for one in new]
        facts: JsonObject = {SKILLS: {**_versions(new), **dict.fromkeys(gone, "")}}
        notice = f"skills changed: {', '.join([*names, *(f'{name} is gone' for name in gone)])}"
        return [Attachment(kind=SKILLS, text=changed(new, gone), facts=facts, notice=notice)]

    async def restore(self, kept: Sequence[Item] = ()) -> list[Fragment]:
        """Return what a compaction restores: the loaded skills, newest first, then the list."""
        view = self._session.view
        now = await self._now()
        replaced = view.replaced
        # The text of these stays in view.
        in_view = {
            str(one.call.input.get("skill")).strip().lstrip("/")
            for one in answered_calls(kept)
            if one.call.name == NAME and not one.result.is_error and one.id not in replaced
        }
        names = [one for one in reversed(loaded_skills(view).items()) if one[0] not in in_view]
        found = [await asyncio.to_thread(_again, now.get(name), facts) for name, facts in names]
        self._brought = {}
        records = {item.record_id for item in kept}
        is_listed = any(one.fact(WHOLE) is True and one.fact(RECORD) in records for one in view.noted(SKILLS))
        if now and not is_listed:
            self._brought = _facts(now)
            found.append(Fragment(kind="other", name=THE_LIST, text=listed(now.values())))
        return found

    def carry(self, restored: Sequence[Fragment], summary_id: str) -> list[Noted]:
        """Return a note about the restored list, if it was not cut."""
        clock = self._session.clock
        is_whole = any(one.name == THE_LIST and CUT not in one.text for one in restored)
        if not (self._brought and is_whole):
            return []
        facts: JsonObject = {**self._brought, RECORD: summary_id}
        return [Noted(id=clock.new_id(), at=clock.now(), kind=SKILLS, facts=facts)]

    async def _now(self) -> dict[str, Skill]:
        return await asyncio.to_thread(self._registry.look) if self._is_offered else {}


def listed(skills: Iterable[Skill]) -> str:
    """Return the list as text for the model."""
    return prompts.render(LISTED, skills=_lines(skills))


def _lines(skills: Iterable[Skill]) -> str:
    room = LIST_CHARS
    lines = list[str]()
    for one in skills:
        words = neutralise(one.description)
        if len(words) > DESCRIPTION_CHARS:
            words = f"{words[:DESCRIPTION_CHARS].rstrip()}…"
        room -= len(words)
        lines.append(f"- {one.name}: {words}" if room >= 0 else f"- {one.name}")
    return "\n".join(lines)


def changed(new: Sequence[Skill], gone: Sequence[str]) -> str:
    """Return new and removed skills as text for the model."""
    parts = [
        prompts.render(GONE, names=", ".join(map(neutralise, gone))) if gone else "",
        prompts.render(NEW, skills=_lines(new)) if new else "",
    ]
    return prompts.render(CHANGED, changes=" ".join(filter(None, parts)))


def _again(skill: Skill | None, facts: JsonObject) -> Fragment:
    """Return a skill as it is on disk now, with its arguments."""
    name = neutralise(str(facts["name"]))
    named = f"the skill {name}"
    if skill is not None:
        try:
            return Fragment(kind="skill", name=named, text=shown(skill, str(facts.get("arguments") or "")))
        except ToolError:
            pass  # it was removed meanwhile
    return Fragment(kind="skill", name=named, text=prompts.render(ONE_GONE, name=name))


def _facts(skills: Mapping[str, Skill]) -> JsonObject:
    return {SKILLS: {**_versions(skills.values())}, WHOLE: True}


def _versions(skills: Iterable[Skill]) -> dict[str, str]:
    return {one.name: _version(one) for one in skills}


def _version(skill: Skill) -> str:
    return digest(f"{skill.description}\n{skill.folder}")
