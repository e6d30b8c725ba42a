"""The template of the notes, nacre's own or the user's; an edit never changes its headings (C13)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import accumulate
from pathlib import Path

from nacre import prompts
from nacre.layers.l3_notes.policy import NotesSettings
from nacre.messages.tokens import BYTES_PER_TOKEN, estimate_text

_HEADING = re.compile(r"(#{1,6})[ \t]+(.*\S)")
_FENCE = re.compile(r"\s{0,3}(```+|~~~+)")


@dataclass(frozen=True, slots=True)
class NotesSection:
    """A heading, its description and its content."""

    heading: str
    description: str = ""
    body: str = ""

    @property
    def name(self) -> str:
        return _plain(self.heading)

    def __str__(self) -> str:
        head = "\n".join(line for line in (self.heading, self.description) if line)
        return f"{head}\n\n{self.body}" if self.body else head


@dataclass(frozen=True)
class NotesTemplate:
    """The sections of the notes, in order, with their initial content."""

    sections: tuple[NotesSection, ...]

    @staticmethod
    def of(text: str) -> NotesTemplate | None:
        """Parse a template of `# Heading` and `_description_` lines; None without such headings.

        None, too, if two sections have the same name.
        """
        found: list[tuple[str, list[str]]] = []
        for line in _lines(text):
            if (heading := _HEADING.fullmatch(line.rstrip())) and len(heading[1]) == 1:
                found.append((line.rstrip(), []))
            elif found:
                found[-1][1].append(line.rstrip())
        made: list[NotesSection] = []
        for title, lines in found:
            body = _trimmed(lines)
            first, _, rest = body.partition("\n")
            is_italic = len(first) > 2 and first[0] in "_*" and first[-1] == first[0] and first[1] != first[0]
            parts = (first, rest.strip("\n")) if is_italic else ("", body)
            made.append(NotesSection(title, *parts))
        is_unique = len({one.name for one in made}) == len(made)
        return NotesTemplate(tuple(made)) if made and is_unique else None

    @property
    def text(self) -> str:
        """The empty notes."""
        return written(self.sections)

    @cached_property
    def headings(self) -> Mapping[str, int]:
        """Index of each section by its plain name."""
        return {one.name: place for place, one in enumerate(self.sections)}

    @cached_property
    def descriptions(self) -> Mapping[str, int]:
        """Index of each section by its description, if that is unique."""
        lines = [one.description for one in self.sections]
        return {line: place for place, line in enumerate(lines) if line and lines.count(line) == 1}


def sections(text: str, template: NotesTemplate) -> list[NotesSection]:
    """Return the template's sections with the content of a text; other lines go to the nearest."""
    bodies: list[list[str]] = [[] for _ in template.sections]
    for place, line in _placed(_lines(text), template):
        bodies[place].append(line)
    return [
        NotesSection(one.heading, one.description, _trimmed(lines))
        for one, lines in zip(template.sections, bodies, strict=True)
    ]


def mended(old: str, new: str, template: NotesTemplate) -> str:
    """Return the new text in the template's form; the content of a removed section is restored."""
    parsed = sections(new, template)
    lines = set(_lines(new))
    named = {place for place, _, _ in _markers(_lines(new), template)}
    before = sections(old, template)
    for place, section in enumerate(parsed):
        # An edit may not remove a section; if its lines are elsewhere, only the heading was lost.
        lost = before[place].body
        if place not in named and not section.body and lines.isdisjoint(_said(lost)):
            parsed[place] = NotesSection(section.heading, section.description, lost)
    return written(parsed)


def written(parsed: Sequence[NotesSection]) -> str:
    """Return the sections as one text."""
    return "\n\n".join(map(str, parsed)) + "\n"


def is_bare(text: str, template: NotesTemplate) -> bool:
    """Return whether the text holds nothing but the template."""
    own = [one.body for one in template.sections]
    said = [one.body for one in sections(text, template)]
    return all(not body or body == default for body, default in zip(said, own, strict=True))


def _placed(lines: Sequence[str], template: NotesTemplate) -> Iterator[tuple[int, str]]:
    """Yield every line except headings and descriptions, with the index of its section."""
    starts = {line: (place, is_name) for place, line, is_name in _markers(lines, template)}
    current = 0
    for n, line in enumerate(lines):
        if n in starts:
            current, is_whole = starts[n]
            if not is_whole:
                yield current, line
        else:
            yield current, line


def _markers(lines: Sequence[str], template: NotesTemplate) -> list[tuple[int, int, bool]]:
    """Return where sections begin: index, line, and whether the line is the template's own.

    A heading counts if it has the right name at the first level, outside of code or above its description;
    at another level, if the right one is nowhere; under another name, if it stands above the description.
    """
    found: list[tuple[int, int, bool]] = []
    fence = ""
    for n, (line, following) in enumerate(zip(lines, _following(lines), strict=True)):
        place = template.descriptions.get(line.strip())
        below = template.descriptions.get(following)
        heading = _HEADING.fullmatch(line.strip())
        named = template.headings.get(_plain(line)) if heading and len(heading[1]) == 1 else None
        if place is not None:
            found.append((place, n, True))
            fence = ""
        elif named is not None and (not fence or below == named):
            found.append((named, n, True))
            fence = ""
        elif heading and below is not None and not fence:
            found.append((below, n, _plain(line) in template.headings))
        else:
            fence = _fence_after(fence, line)
    return found + _at_other_levels(lines, template, found)


def _at_other_levels(
    lines: Sequence[str], template: NotesTemplate, found: Sequence[tuple[int, int, bool]]
) -> list[tuple[int, int, bool]]:
    known = {place for place, _, _ in found}
    taken = {n for _, n, _ in found}
    more: list[tuple[int, int, bool]] = []
    for n, line in enumerate(lines):
        place = template.headings.get(_plain(line)) if _HEADING.fullmatch(line.strip()) else None
        if place is not None and place not in known and n not in taken:
            known.add(place)
            more.append((place, n, True))
    return more


def _fence_after(fence: str, line: str) -> str:
    """Return the fence of the code block that is open after a line; empty outside of code."""
    opened = _FENCE.match(line)
    if opened is None:
        return fence
    if not fence:
        return opened[1]
    return "" if opened[1].startswith(fence) else fence


def _following(lines: Sequence[str]) -> list[str]:
    """Return for each line the next one that is not blank."""
    following = ""
    found = []
    for line in reversed(lines):
        found.append(following)
        following = line.strip() or following
    return found[::-1]


def _plain(heading: str) -> str:
    """Return the name of a heading, without markup and case."""
    return " ".join(heading.strip().lstrip("#").strip().strip("*:").split()).casefold()


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").split("\n")


def _said(body: str) -> set[str]:
    return {line for line in _lines(body) if line.strip()}


def _trimmed(lines: Sequence[str]) -> str:
    """Return the lines without blank ones at both ends."""
    said = [n for n, line in enumerate(lines) if line.strip()]
    return "\n".join(lines[said[0] : said[-1] + 1]) if said else ""


def _usual() -> NotesTemplate:
    template = NotesTemplate.of(prompts.load("nacre.layers.l3_notes", "template"))
    assert template is not None, "the template beside this file has sections"
    return template


TEMPLATE = _usual()
"""The ten default sections."""


LEFT_OUT = "[Cut here: {lines} more line{s}{where}.]"
NOTE_TOKENS = 40
"""Tokens reserved for the remark about a cut, including a long path."""
CEILING = 1.5
"""Notes that exceed their budgets are to be condensed; from this many budgets on they are cut."""
FENCE_BYTES = 16
"""Bytes reserved for the fence of a code block that was cut."""


def sizes(text: str, template: NotesTemplate) -> dict[str, int]:
    """Return the estimated tokens of each section's content, by heading."""
    return {one.heading: estimate_text(one.body) for one in sections(text, template)}


def too_long(text: str, template: NotesTemplate, settings: NotesSettings) -> dict[str, int]:
    """Return the sections over their budget with their tokens, largest first.

    Where only all together are over theirs, the larger half of them is to give.
    """
    found = sizes(text, template)
    over = {heading: tokens for heading, tokens in found.items() if tokens > settings.section_tokens}
    if not over and sum(found.values()) > settings.total_tokens:
        fair = settings.total_tokens / max(1, len(found))
        over = {heading: tokens for heading, tokens in found.items() if tokens > fair}
    return dict(sorted(over.items(), key=lambda one: -one[1]))


def injected(text: str, template: NotesTemplate, settings: NotesSettings, *, where: str = "") -> str:
    """Return the notes for a conversation: empty sections left out, long ones cut.

    `where` names the file, for those who want the rest.
    """
    filled_sections = [one for one in sections(text, template) if one.body]
    left = settings.total_tokens - sum(estimate_text(one.heading) + 1 for one in filled_sections)
    budget = _section_limit([one.body for one in filled_sections], settings.section_tokens, left)
    return "\n\n".join(f"{one.heading}\n{_cut(one.body, budget, where)}" for one in filled_sections)


def _section_limit(bodies: Sequence[str], section_tokens: int, total_tokens: int) -> int:
    """Return the tokens per section at which all fit; only longer sections need to be cut."""
    left = total_tokens
    waiting = sorted(map(estimate_text, bodies))
    while waiting and waiting[0] * len(waiting) <= left:
        left -= waiting.pop(0)
    fair = left // len(waiting) if waiting else section_tokens
    return max(0, min(section_tokens, fair))


def capped(
    text: str, template: NotesTemplate, settings: NotesSettings, *, before: str = ""
) -> tuple[str, tuple[str, ...]]:
    """Return the notes with the newest lines of sections beyond the ceiling, and the headings of those cut.

    New lines are expected at the end of a section; at its beginning, where an update of the notes `before`
    wrote them there.
    """
    parsed = sections(text, template)
    limit = _section_limit(
        [one.body for one in parsed],
        int(settings.section_tokens * CEILING),
        int(settings.total_tokens * CEILING),
    )
    long = [place for place, one in enumerate(parsed) if estimate_text(one.body) > limit]
    if not long:
        return text, ()
    earlier = sections(before, template)
    for place in long:
        known = _said(earlier[place].body)
        body = parsed[place].body
        lines = body.split("\n")
        is_newest_first = lines[0] not in known and lines[-1] in known
        room = limit * len(body.encode(errors="replace")) // estimate_text(body)
        body = _newest(lines, room, is_newest_first=is_newest_first)
        parsed[place] = replace(parsed[place], body=body)
    return written(parsed), tuple(parsed[place].heading for place in long)


def _newest(lines: Sequence[str], room: int, *, is_newest_first: bool) -> str:
    """Return the newest lines within so many bytes; of a single long line its newest part.

    A code block that is cut is closed again, or it would hide the headings behind it.
    """
    ordered = lines if is_newest_first else lines[::-1]
    room -= FENCE_BYTES
    ends = accumulate(len(line.encode(errors="replace")) + 1 for line in ordered)
    kept = sum(end <= room for end in ends)
    if not kept:
        encoded = ordered[0].encode(errors="replace")
        part = encoded[:room] if is_newest_first else encoded[-room:]
        return part.decode(errors="ignore") if room > 0 else ""
    shown = list(lines[:kept] if is_newest_first else lines[-kept:])
    fence = reduce(_fence_after, shown if is_newest_first else lines[:-kept], "")
    if fence:
        shown.insert(kept if is_newest_first else 0, fence)
    return _trimmed(shown)


def _cut(body: str, budget: int, where: str) -> str:
    """Return a section's text cut at a line end within its budget; a single long line is cut, too."""
    if estimate_text(body) <= budget:
        return body
    room = max(0, budget - NOTE_TOKENS) * BYTES_PER_TOKEN
    lines = body.split("\n")
    ends = accumulate(len(line.encode(errors="replace")) + 1 for line in lines)
    kept = sum(end <= room for end in ends)
    shown = lines[:kept] or [lines[0].encode(errors="replace")[:room].decode(errors="ignore")]
    more = len(lines) - kept
    note = LEFT_OUT.format(lines=more, s="s" * (more != 1), where=f" in {where}" if where else "")
    return "\n".join([*shown, note])


FOLDER = Path("session-memory", "config")
"""Folder below the home."""
UPDATE = prompts.load("nacre.layers.l3_notes", "update")
_SLOT = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotesForm:
    """The template of the notes and the prompt for updates."""

    template: NotesTemplate = TEMPLATE
    prompt: str = UPDATE
    problems: tuple[str, ...] = ()
    """Notices for the user: one line for each file that is not used."""

    @staticmethod
    def of(home: Path) -> NotesForm:
        """Read the user's own template and prompt from a home; each is optional."""
        problems: list[str] = []
        prompt, text = (_read(home / FOLDER / name, problems) for name in ("prompt.md", "template.md"))
        template = NotesTemplate.of(text) if text else TEMPLATE
        if template is None:
            where = home / FOLDER / "template.md"
            problems.append(f"{where} needs different `# Headings`; the usual template is used instead.")
        return NotesForm(template=template or TEMPLATE, prompt=prompt or UPDATE, problems=tuple(problems))


def filled(text: str, **slots: str) -> str:
    """Fill the slots of a user's prompt in one pass; unknown slots stay unchanged."""
    return _SLOT.sub(lambda slot: slots.get(slot[1], slot[0]), text)


def asks_for(text: str, name: str) -> bool:
    """Return whether a prompt has this slot."""
    return name in _SLOT.findall(text)


def _read(path: Path, problems: list[str]) -> str:
    try:
        return path.read_bytes().decode().replace("\r\n", "\n").removesuffix("\n")
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        problems.append(f"{path} cannot be read ({error}); the usual one is used instead.")
        return ""
