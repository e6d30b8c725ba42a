"""Skills: folders whose SKILL.md says how something is done; which ones there are, and what one says.

A repository's skills count as its instructions do: nothing of them is read outside its tree, and nothing is
executed. The person's own may be linked to from anywhere.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nacre.errors import OutsideStore
from nacre.memory.files.containment import open_inside
from nacre.memory.format.entry import one_line
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.messages.untrusted_text import one_line as on_one_line
from nacre.store import disk

FILE = "SKILL.md"


HEAD_BYTES = 65_536
"""Read of a file to list it: no frontmatter is longer, and a hundred of them are read in milliseconds."""


LOADED_CHARS = 40_000
"""Of a skill that is loaded, about 10,000 tokens: twice what authors are told to stay below."""


MAX_SKILLS = 100
"""Of all places together: a longer list would be a bad index and cost more than it is worth."""


MAX_NAME_CHARS = 64


CUT = "[Cut here; the rest of it stands in {path}: read it there.]"


_NAME = re.compile(r"\w[\w.-]*")


_WORTH_A_WORD = frozenset({"unterminated", "not-a-map", "stray", "duplicate"})
"""What is odd about a frontmatter and may have kept its author's meaning from being read."""


_NO_DESCRIPTION = "has no description in its frontmatter; add one, because the model chooses by it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """One skill as it can be listed."""

    name: str
    description: str
    """One line, not yet neutralised."""
    folder: Path
    """Where it really is."""

    @property
    def path(self) -> Path:
        return self.folder / FILE


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """A folder of skills, and on whose account they are read."""

    folder: Path
    tree: Path | None = None
    """What they must lie in, links followed; none: the person's own, which may lie anywhere."""


@dataclass(frozen=True, slots=True)
class FoundSkills:
    """The skills there are now, and what is amiss with others."""

    skills: dict[str, Skill]
    """By name, sorted."""
    notices: tuple[str, ...] = ()


def find_skills(places: Iterable[SkillFolder]) -> FoundSkills:
    """Every skill there is; of two with one name the nearer one counts. Nothing in a file raises."""
    found: dict[str, Skill] = {}
    notices: list[str] = []
    seen: set[Path] = set()
    left = 0
    for place in places:
        here: dict[str, Path] = {}
        for skill in _in_place(place, notices):
            if skill.folder in seen:
                continue
            seen.add(skill.folder)
            if skill.name in here:
                notices.append(_line(skill.path, f"{here[skill.name]} has the same name; rename one"))
            elif skill.name not in found and len(found) == MAX_SKILLS:
                left += 1
            else:
                here[skill.name] = skill.folder
                found.setdefault(skill.name, skill)
    if left:
        notices.append(f"there are {left} skills more than the {MAX_SKILLS} that are listed; remove some")
    return FoundSkills(dict(sorted(found.items())), tuple(notices))


def skill_text(skill: Skill) -> str:
    """What a skill says, without its frontmatter; of a long one the head, and where the rest is.

    Raises `OSError` or `OutsideStore` where its file cannot be read any more.
    """
    most = LOADED_CHARS * 4
    data = _read(skill.folder, most + 1)
    text = MarkdownFile.parse(data[:most]).body
    if len(data) <= most and len(text) <= LOADED_CHARS:
        return text.rstrip("\n")
    head = text[:LOADED_CHARS].rpartition("\n")[0] or text[:LOADED_CHARS]
    return f"{head}\n{CUT.format(path=skill.path)}"


def _in_place(place: SkillFolder, notices: list[str]) -> Iterator[Skill]:
    top = Path(os.path.realpath(place.folder))
    try:
        names = sorted(os.listdir(top))  # noqa: PTH208  # names alone are enough, and sort as text
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        notices.append(disk.explain(error, place.folder))
        return
    for name in names:
        folder = Path(os.path.realpath(top / name))
        if name.startswith(".") or not _is_folder(folder):
            continue
        if place.tree is not None and not folder.is_relative_to(place.tree):
            notices.append(_line(place.folder / name / FILE, "it leads out of the project; copy it there"))
        elif (skill := _in_folder(folder, name, notices)) is not None:
            yield skill


def _in_folder(folder: Path, name: str, notices: list[str]) -> Skill | None:
    try:
        skill, remark = _skill(_read(folder, HEAD_BYTES), name, folder)
    except FileNotFoundError:
        return None
    except OutsideStore:
        notices.append(_line(folder / FILE, "it is a link that leaves its folder; put a file there"))
    except OSError as error:
        notices.append(f"a skill is left out: {on_one_line(disk.explain(error, folder / FILE))}")
    except ValueError as error:
        notices.append(_line(folder / FILE, str(error)))
    else:
        notices += [f"{on_one_line(str(skill.path))}: {remark}"] if remark else []
        return skill if skill.description else None
    return None


def _read(folder: Path, most: int) -> bytes:
    """The beginning of a skill's file; it must lie in its folder, also when it is a link."""
    with os.fdopen(open_inside(folder, FILE, os.O_RDONLY), "rb") as file:
        return file.read(most)


def _skill(data: bytes, named: str, folder: Path) -> tuple[Skill, str]:
    """A skill with what is to be said about it; one that is not for the model has no description."""
    if b"\0" in data:
        raise ValueError("a binary file; a skill is UTF-8 text")
    if len(data) == HEAD_BYTES:
        data = data.rpartition(b"\n")[0]  # the last character may be there in part only
    document = MarkdownFile.parse(data)
    odd = [one for one in document.problems if one.kind in _WORTH_A_WORD or one.kind == "encoding"]
    if odd and odd[0].kind == "encoding":
        raise ValueError(odd[0].message)
    name = unicodedata.normalize("NFC", _word(document, "name") or named)
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME_CHARS:
        raise ValueError(
            f"{on_one_line(name[:MAX_NAME_CHARS])!r} is no name for it; use letters, digits and dashes"
        )
    if _word(document, "disable-model-invocation").lower() == "true":
        return Skill(name=name, description="", folder=folder), ""
    description = _word(document, "description")
    remark = odd[0].message if odd else ""
    if not description:
        lines = (line.lstrip("# ").strip() for line in document.body.splitlines())
        description = one_line(next(filter(None, lines), ""))
        remark = remark or _NO_DESCRIPTION
    if not description:
        raise ValueError("it says nothing; write what the skill is for and how it is done")
    return Skill(name=name, description=description, folder=folder), remark


def _word(document: MarkdownFile, key: str) -> str:
    value = document.fields.get(key, "")
    return one_line(value if isinstance(value, str) else " ".join(value))


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _line(path: Path, reason: str) -> str:
    return f"{on_one_line(str(path))} is left out: {reason}"
