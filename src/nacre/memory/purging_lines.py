"""Erase one line of a daily log for good: from the log, every commit, every session (M14b, M17)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nacre.errors import StoreError
from nacre.memory.daily import forget_line, logged
from nacre.memory.daily_lines import LogLine, read_log, without
from nacre.memory.directory import Memory
from nacre.memory.entry import Change
from nacre.memory.folder import Folder
from nacre.memory.purging import Erased, Past, and_rare_words, said_beside, say_the_same, versions_of
from nacre.memory.purging_home import forget_derived
from nacre.memory.scan import LOGS
from nacre.memory.undo import purge
from nacre.store.history_purge import Scrub

ALL_LOGS = 1_000_000
"""More days than anybody has: what is to be erased may be old."""


def line_named(memory: Memory, name: str) -> LogLine | None:
    """The line at exactly this place, or that says exactly this; what cannot be undone is never guessed."""
    lines = logged(memory.location, newest=ALL_LOGS)
    if name.startswith(f"{LOGS}/"):
        return next((one for one in lines if one.place == name), None)
    same = [one for one in lines if one.text.casefold() == name.casefold()]
    if len(same) > 1:
        places = ", ".join(one.place for one in same)
        raise StoreError(
            f"{name!r} stands in several places: {places}; name one, because this cannot be undone"
        )
    return same[0] if same else None


def past_of_line(memory: Memory, line: LogLine) -> Past:
    """What a line says, and where else it is said; read before it is erased."""
    directory = memory.location.directory
    folder = Folder(directory)
    left = without(folder.read(line.file) or b"", [line]).decode(errors="replace")
    beside = {**dict(said_beside(memory, line.file)), directory / line.file: left}
    same, known = say_the_same(beside, line.place, [line.text])
    return Past(
        file=line.place,
        folder=directory.name,
        texts=(line.text,),
        copies=frozenset(),
        commits=sum(bool(_forms(line, content)) for content, _ in versions_of(memory, line.file)),
        shared=same,
        others=known,
    )


async def erase_line(memory: Memory, line: LogLine, change: Change) -> Erased:
    """Take a line out of its log, then out of every version of it that the history has."""
    forms = {form for content, _ in versions_of(memory, line.file) for form in _forms(line, content)}
    scrub = and_rare_words(without_forms(forms), past_of_line(memory, line).traces)
    await forget_line(memory, line, change)
    purged = await purge(memory.location, [], scrub=scrub)
    forget_derived(memory.location.cache)
    folder = Folder(memory.location.directory)
    still = [name for name in sorted(folder.scan()) if scrub(data := folder.read(name) or b"") != data]
    return Erased(file=line.place, commits=purged.commits, files=purged.files, left=(*purged.left, *still))


def without_forms(forms: Iterable[tuple[bytes, ...]]) -> Scrub:
    """Leave out every run of whole lines that is one of these; line ends do not matter."""
    wanted = sorted(forms, key=lambda form: (-len(form), form))

    def scrub(data: bytes) -> bytes:
        lines, before = data.split(b"\n"), -1
        while len(lines) != before:  # what moved together may be one of them, too
            before = len(lines)
            for form in wanted:
                lines = _without_run(lines, form)
        return b"\n".join(lines)

    return scrub


def _without_run(lines: list[bytes], form: tuple[bytes, ...]) -> list[bytes]:
    at, bare = 0, [line.rstrip() for line in lines]
    while at <= len(lines) - len(form):
        if tuple(bare[at : at + len(form)]) == form:
            del lines[at : at + len(form)], bare[at : at + len(form)]
        else:
            at += 1
    return lines


def _forms(line: LogLine, content: bytes) -> list[tuple[bytes, ...]]:
    """How a version of the log wrote this fact down: its lines, without what ends them."""
    lines = content.split(b"\n")
    facts = (one for one in read_log(line.file, content) if _is_same(one, line))
    return [tuple(each.rstrip() for each in lines[one.line - 1 : one.end]) for one in facts]


def _is_same(one: LogLine, line: LogLine) -> bool:
    """Said at the same time in the same words, wherever in the log."""
    return replace(one, line=0, end=0) == replace(line, line=0, end=0)
