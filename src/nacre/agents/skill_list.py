"""Which skills there are, told once at the tail, then what changed; a compaction gets them back (C21)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from nacre import prompts
from nacre.agents.hands import Hands
from nacre.agents.layer import Layer
from nacre.agents.restoration import CUT
from nacre.agents.riding import RECORD, WHOLE, Extra, digest, standing, told_in
from nacre.agents.session import Session
from nacre.agents.skill_tool import NAME, SKILL, SkillDesk, invoked, shown
from nacre.agents.skills import Skill
from nacre.errors import ToolError
from nacre.memory.neutral import neutralise
from nacre.messages.blocks import JsonObject, ToolResult
from nacre.messages.pairing import Item
from nacre.messages.records import Noted, Said
from nacre.messages.results import answered
from nacre.messages.summary import Fragment
from nacre.messages.view import View
from nacre.tools.base import Tool

SKILLS = "skills"
"""The kind of note that says which skills the model was told of, each with a digest."""
DESCRIPTION_CHARS = 400
"""Of one skill in the list: what it is for is said in two or three sentences."""
LIST_CHARS = 12_000
"""Of all descriptions, about 3,000 tokens that every session pays for; behind that names stand alone."""
LISTED = prompts.load(__package__, "skills_listed")
CHANGED = prompts.load(__package__, "skills_changed")
NEW = prompts.load(__package__, "skills_new")
GONE = prompts.load(__package__, "skills_gone")
ONE_GONE = prompts.load(__package__, "skill_gone")
THE_LIST = "the list of skills"


class SkillList(Layer):
    """Knows which skills the model was told of, and tells it what is new; owned by one session."""

    log_kinds = {SKILL: "all", SKILLS: "own"}  # what was loaded comes back with every later compaction

    def __init__(self, session: Session, desk: SkillDesk, *, is_offered: bool = True) -> None:
        """`is_offered`: the model has the tool for them; without it all there were are gone."""
        self._session = session
        self._desk = desk
        self._is_offered = is_offered
        self._brought: JsonObject = {}

    async def attach(self, said: Said, view: View) -> Sequence[Extra]:
        """The list with the first words, changes with later ones; with results only what was lost."""
        notes = standing(view, SKILLS)
        is_listed = any(note.fact(WHOLE) is True for note in notes)
        if is_listed and any(isinstance(block, ToolResult) for block in said.blocks):
            return []
        now = await self._now()
        if not is_listed:
            return [Extra(kind=SKILLS, text=listed(now.values()), facts=_facts(now))] if now else []
        told = told_in(notes, SKILLS)
        new = [one for name, one in now.items() if told.get(name) != _version(one)]
        gone = [name for name, version in told.items() if version and name not in now]
        if not (new or gone):
            return []
        names = [one.name for one in new]
        facts: JsonObject = {SKILLS: {**_versions(new), **dict.fromkeys(gone, "")}}
        notice = f"skills changed: {', '.join([*names, *(f'{name} is gone' for name in gone)])}"
        return [Extra(kind=SKILLS, text=changed(new, gone), facts=facts, notice=notice)]

    async def restore(self, kept: Sequence[Item] = ()) -> list[Fragment]:
        """What a compaction gets back: the skills that were loaded, newest first, then the list."""
        view, now = self._session.view, await self._now()
        there = _loaded_in(kept, view)
        names = [one for one in reversed(invoked(view).items()) if one[0] not in there]
        found = [await asyncio.to_thread(_again, now.get(name), facts) for name, facts in names]
        self._brought = {}
        if now and not self._stands_in(kept):
            self._brought = _facts(now)
            found.append(Fragment(kind="other", name=THE_LIST, text=listed(now.values())))
        return found

    def carry(self, restored: Sequence[Fragment], summary_id: str) -> list[Noted]:
        """What the log says of the list from now on, if all of it came back."""
        clock = self._session.clock
        is_whole = any(one.name == THE_LIST and CUT not in one.text for one in restored)
        if not (self._brought and is_whole):
            return []
        facts: JsonObject = {**self._brought, RECORD: summary_id}
        return [Noted(id=clock.new_id(), at=clock.now(), kind=SKILLS, facts=facts)]

    async def _now(self) -> dict[str, Skill]:
        return await asyncio.to_thread(self._desk.look) if self._is_offered else {}

    def _stands_in(self, kept: Sequence[Item]) -> bool:
        there = {item.record_id for item in kept}
        notes = self._session.view.noted(SKILLS)
        return any(note.fact(WHOLE) is True and note.fact(RECORD) in there for note in notes)


def join_skills(session: Session, hands: Hands, *, tools: Sequence[Tool]) -> None:
    """Tell a session of its skills, where it has the tool for them, or was told of some before."""
    is_offered = any(one.name == NAME for one in tools)
    if hands.skills is None or not (is_offered or session.view.noted(SKILLS)):
        return
    session.layers.append(SkillList(session, hands.skills, is_offered=is_offered))


def listed(skills: Iterable[Skill]) -> str:
    """The list as the model reads it."""
    return prompts.render(LISTED, skills=_lines(skills))


def _lines(skills: Iterable[Skill]) -> str:
    room, lines = LIST_CHARS, list[str]()
    for one in skills:
        words = neutralise(one.description)
        if len(words) > DESCRIPTION_CHARS:
            words = f"{words[:DESCRIPTION_CHARS].rstrip()}…"
        room -= len(words)
        lines.append(f"- {one.name}: {words}" if room >= 0 else f"- {one.name}")
    return "\n".join(lines)


def changed(new: Sequence[Skill], gone: Sequence[str]) -> str:
    """What is new and what is gone, as the model reads it."""
    parts = [
        prompts.render(GONE, names=", ".join(map(neutralise, gone))) if gone else "",
        prompts.render(NEW, skills=_lines(new)) if new else "",
    ]
    return prompts.render(CHANGED, changes=" ".join(filter(None, parts)))


def _again(skill: Skill | None, facts: JsonObject) -> Fragment:
    """A skill as it is on disk now, with what it was called with."""
    name = neutralise(str(facts["name"]))
    named = f"the skill {name}"
    if skill is not None:
        try:
            return Fragment(kind="skill", name=named, text=shown(skill, str(facts.get("arguments") or "")))
        except ToolError:
            pass  # it went between two looks
    return Fragment(kind="skill", name=named, text=prompts.render(ONE_GONE, name=name))


def _loaded_in(kept: Sequence[Item], view: View) -> set[str]:
    """The skills whose words stay in view by themselves."""
    replaced = view.replaced
    return {
        str(one.call.input.get("skill")).strip().lstrip("/")
        for one in answered(kept)
        if one.call.name == NAME and not one.result.is_error and one.id not in replaced
    }


def _facts(skills: Mapping[str, Skill]) -> JsonObject:
    return {SKILLS: {**_versions(skills.values())}, WHOLE: True}


def _versions(skills: Iterable[Skill]) -> dict[str, str]:
    return {one.name: _version(one) for one in skills}


def _version(skill: Skill) -> str:
    return digest(f"{skill.description}\n{skill.folder}")
