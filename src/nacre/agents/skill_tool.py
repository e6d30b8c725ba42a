"""The Skill tool: loads one skill whole, and has the log say so, so that a compaction gets it back (C21)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

from nacre import prompts
from nacre.agents.skills import Found, Skill, SkillPlace, find_skills, skill_text
from nacre.clock import Clock
from nacre.errors import OutsideStore, ToolError
from nacre.memory.neutral import neutralise, one_line
from nacre.messages.blocks import JsonObject
from nacre.messages.records import Noted
from nacre.messages.transcript import Transcript
from nacre.messages.view import View
from nacre.tools.base import Tool, tool

NAME = "Skill"
SKILL = "skill"
"""The kind of note that says that a skill was loaded."""
DESCRIPTION = prompts.load(__package__, "skill")
LOADED = prompts.load(__package__, "skill_loaded")
ARGUMENTS, FOLDER = "$ARGUMENTS", "${CLAUDE_SKILL_DIR}"
"""What stands in a skill for what it is called with, and for its folder."""
MAX_ARGUMENT_CHARS = 4_000
"""What a skill is called with is a line or two; a log that notes it must not grow by more."""


def _to_nobody(folder: Path) -> None:
    return None


class SkillDesk:
    """The skills of one session: looked for on disk whenever somebody asks; mutable."""

    def __init__(
        self, places: Iterable[SkillPlace], *, on_notice: Callable[[str], None] | None = None
    ) -> None:
        """`on_notice` is told once of each problem with a skill."""
        self._places = tuple(places)
        self._on_notice = on_notice
        self._reported: set[str] = set()
        self._log: tuple[Transcript, Clock] | None = None
        self._open_to_tools: Callable[[Path], None] = _to_nobody

    def look(self) -> dict[str, Skill]:
        """Every skill there is now, by name."""
        found: Found = find_skills(self._places)
        for line in found.notices:
            if line not in self._reported:
                self._reported.add(line)
                if self._on_notice is not None:
                    self._on_notice(line)
        return found.skills

    def belong_to(self, transcript: Transcript, clock: Clock, open_to_tools: Callable[[Path], None]) -> None:
        """Have loading noted there; the folders of what was loaded before are opened to tools again."""
        self._log, self._open_to_tools = (transcript, clock), open_to_tools
        before = invoked(transcript.view)
        for skill in self.look().values() if before else ():
            if skill.name in before:
                open_to_tools(skill.folder)

    async def load(self, name: str, arguments: str = "") -> str:
        """What the model reads of a skill; from now on its folder may be read, and the log knows of it."""
        skills = await asyncio.to_thread(self.look)
        skill = skills.get(name) or skills.get(name.strip().lstrip("/"))
        if skill is None:
            raise ToolError(_unknown(name, skills))
        if len(arguments) > MAX_ARGUMENT_CHARS:
            raise ToolError(f"The arguments are longer than {MAX_ARGUMENT_CHARS:,} characters; shorten them.")
        text = await asyncio.to_thread(shown, skill, arguments)
        self._open_to_tools(skill.folder)
        if self._log is not None:
            transcript, clock = self._log
            facts: JsonObject = {"name": skill.name, "path": str(skill.path), "arguments": arguments}
            await transcript.append(Noted(id=clock.new_id(), at=clock.now(), kind=SKILL, facts=facts))
        return text


def skill_tool(desk: SkillDesk) -> Tool:
    """Loads a skill by its name."""

    @tool(name=NAME, description=DESCRIPTION)
    async def load_skill(
        skill: Annotated[str, "The name of the skill, as it is listed."],
        arguments: Annotated[str, "What to do with it, where the skill asks for something."] = "",
    ) -> str:
        return await desk.load(skill, arguments)

    # It bounds itself; half a skill and a pointer would make the model read the file instead.
    return replace(load_skill, max_result_chars=math.inf)


def shown(skill: Skill, arguments: str = "") -> str:
    """A skill as the model reads it; `ToolError` where its file cannot be read."""
    try:
        text = neutralise(skill_text(skill))
    except (OSError, OutsideStore) as error:
        raise ToolError(f"The skill {skill.name} cannot be read any more: {error}.") from error
    folder, given = one_line(str(skill.folder)), neutralise(arguments)
    has_place = ARGUMENTS in text
    text = text.replace(FOLDER, folder).replace(ARGUMENTS, given)
    if given.strip() and not has_place:
        text = f"{text}\n\nArguments: {given}"
    return prompts.render(LOADED, name=skill.name, folder=folder, text=text)


def invoked(view: View) -> dict[str, JsonObject]:
    """What the log says of every skill that was loaded, by name, the one loaded last at the end."""
    found: dict[str, JsonObject] = {}
    for note in view.noted(SKILL):
        if isinstance(name := note.fact("name"), str):
            found.pop(name, None)
            found[name] = note.facts
    return found


def _unknown(name: str, skills: Iterable[str]) -> str:
    names = list(skills)
    near = get_close_matches(name, names, n=3) or names[:10]
    there = f"did you mean {', '.join(near)}?" if near else "there is none any more."
    return f"There is no skill {one_line(name)[:100]!r}; {there}"
