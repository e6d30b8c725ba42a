"""Skills: folders whose SKILL.md describes how something is done; find them and read their text.

A repository's skills are treated like its instructions: nothing outside its tree is read, and nothing is
executed. The user's own may be links to any place.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nacre.errors import OutsideStore
from nacre.memory.format.entry import one_line
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.messages.untrusted_text import one_line as on_one_line
from nacre.store import disk
from nacre.tools.files import open_real, read_real, resolve

FILE = "SKILL.md"
HEAD_BYTES = 65_536
"""Bytes read to list a skill: no frontmatter is longer, and a hundred files take milliseconds."""
LOADED_CHARS = 40_000
"""Maximum length of a loaded skill, about 10,000 tokens: twice the limit recommended to authors."""
MAX_SKILLS = 100
"""Maximum number of skills in all places: a longer list is a bad index and costs more than it is worth."""
MAX_NAME_CHARS = 64
CUT = "[Cut here; the rest of it stands in {path}: read it there.]"
_NAME = re.compile(r"\w[\w.-]*")
_WORTH_A_WORD = frozenset({"unterminated", "not-a-map", "stray", "duplicate"})
"""Frontmatter problems that may have changed the author's meaning, and are reported."""
_NO_DESCRIPTION = "has no description in its frontmatter; add one, because the model chooses by it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """One skill in the list."""

    name: str
    description: str
    """One line, not yet neutralised."""
    folder: Path
    """The real path."""

    @property
    def path(self) -> Path:
        return self.folder / FILE


def _no_refusal(path: Path) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """A folder of skills, and the tree that they must be in."""

    folder: Path
    tree: Path | None = None
    """The tree that skills must be in, links followed; None for the user's own, which may be anywhere."""
    refusal: Callable[[Path], str] = _no_refusal
    """Returns why a skill's file may not be read, by its real path; empty if it may."""


@dataclass(frozen=True, slots=True)
class FoundSkills:
    """The current skills, and notices about invalid ones."""

    skills: dict[str, Skill]
    """By name, sorted."""
    notices: tuple[str, ...] = ()


def find_skills(places: Iterable[SkillFolder]) -> FoundSkills:
    """Return all skills; the nearer of two with the same name wins. No file content raises."""
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
    """Return a skill's text without its frontmatter; of a long one the beginning, and where the rest is.

    Raises `OSError` or `OutsideStore` if its file can no longer be read.
    """
    most = LOADED_CHARS * 4
    data = _read(skill.folder, most + 1)
    text = MarkdownFile.parse(data[:most]).body
    if len(data) <= most and len(text) <= LOADED_CHARS:
        return text.rstrip("\n")
    head = text[:LOADED_CHARS].rpartition("\n")[0] or text[:LOADED_CHARS]
    return f"{head}\n{CUT.format(path=skill.path)}"


def _in_place(place: SkillFolder, notices: list[str]) -> Iterator[Skill]:
    try:
        top = resolve(place.folder)
        handle = open_real(top, os.O_RDONLY | os.O_DIRECTORY)
        try:
            names = sorted(os.listdir(handle))  # noqa: PTH208  # of the opened directory
        finally:
            os.close(handle)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        notices.append(disk.explain(error, place.folder))
        return
    for name in names:
        folder = _folder(top / name)
        if name.startswith(".") or folder is None:
            continue
        if place.tree is not None and not folder.is_relative_to(place.tree):
            notices.append(
                _line(place.folder / name / FILE, "it links to a folder outside the project; copy it there")
            )
        elif why := place.refusal(folder / FILE):
            notices.append(_line(place.folder / name / FILE, why))
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
    """Read the beginning of a skill's file, which must be in its folder, also if it is a link."""
    path = resolve(folder / FILE)
    if not path.is_relative_to(folder):
        raise OutsideStore(f"{folder / FILE} is a link that leaves its folder; put a file there")
    return read_real(path, most)[0]


def _skill(data: bytes, named: str, folder: Path) -> tuple[Skill, str]:
    """Return a skill and a remark about it; one that is not for the model has no description."""
    if b"\0" in data:
        raise ValueError("a binary file; a skill is UTF-8 text")
    if len(data) == HEAD_BYTES:
        data = data.rpartition(b"\n")[0]  # the last character may be incomplete
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


def _folder(path: Path) -> Path | None:
    """Return the real path of a folder; None for anything else."""
    try:
        real = resolve(path)
    except (OSError, ValueError):
        return None
    return real if real.is_dir() else None


def _line(path: Path, reason: str) -> str:
    return f"{on_one_line(str(path))} is left out: {reason}"
