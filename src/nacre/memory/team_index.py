"""Two indexes become one: pointers by what each side did to them, other lines as they are (M18).

No index is ever in conflict: a line is added where one side added it, gone where one side removed it, and has
the words of the side that changed them.
"""

from __future__ import annotations

from collections.abc import Callable

from nacre.memory.pointers import Index, Line


def merged_index(mine: bytes, theirs: bytes, base: bytes, *, is_listed: Callable[[str], bool]) -> bytes:
    """One index; only lines of files that may be listed here are in it."""
    return _cleaned(_merged(mine, theirs, base), is_listed)


def public_index(data: bytes, *, is_shared: Callable[[str], bool]) -> bytes:
    """The index without the lines of files that the others do not get: a line tells, too."""
    return _cleaned(data, is_shared)


def _merged(mine: bytes, theirs: bytes, base: bytes) -> bytes:
    ours, others, old = _single(mine), _single(theirs), _single(base)
    if mine in {theirs, base}:
        return others.data
    if theirs == base:
        return ours.data
    # Whoever changed headings or words around the pointers keeps them; the other side's pointers come in.
    if _prose(ours) == _prose(old):
        return _with_changes(others, ours, old, has_last_word=True)
    merged = _with_changes(ours, others, old)
    return merged if _prose(others) == _prose(old) else _with_words(merged, others, old)


def _with_changes(start: Index, other: Index, old: Index, *, has_last_word: bool = False) -> bytes:
    """What the other side did to pointers since `old`, done to `start`; who has the last word wins ties."""
    data = start.data
    mine, was, kept = _lines(start), _lines(old), _lines(other)
    for line in other.pointers:
        here, before = mine.get(line.file), was.get(line.file)
        if _words(line) != before and (here in {before, None} or has_last_word):
            data = Index.parse(data).with_pointer(line.file, line.title, line.hook)
    for file, words in was.items():
        # A line that was reworded on one side while it was removed on the other stays, if its file does.
        if file not in kept and mine.get(file) == words:
            data = Index.parse(data).without(file)
    return data


def _with_words(data: bytes, other: Index, old: Index) -> bytes:
    """Both sides wrote around the pointers: what only the other wrote comes at the end."""
    present = {*_prose(Index.parse(data)), *_prose(old)}
    new = [line for line in _prose(other) if line not in present]
    if not new:
        return data
    gap = b"" if not data or data.endswith(b"\n\n") else b"\n" if data.endswith(b"\n") else b"\n\n"
    return data + gap + "".join(f"{line}\n" for line in new).encode(errors="surrogateescape")


def _cleaned(data: bytes, keeps: Callable[[str], bool]) -> bytes:
    for file in {line.file for line in Index.parse(data).pointers}:
        if not keeps(file):
            data = Index.parse(data).without(file)
    return data


def _single(data: bytes) -> Index:
    """The first of several pointers to one file stands for them: what is merged is one line a file."""
    index, seen = Index.parse(data), set[str]()
    raws = []
    for line in index.lines:
        if line.kind == "pointer" and line.file in seen:
            continue
        seen.add(line.file)
        raws.append(line.raw)
    return Index.parse("".join(raws).encode(errors="surrogateescape"))


def _prose(index: Index) -> list[str]:
    """What stands around the pointers, without blank lines."""
    return [line.raw.rstrip() for line in index.lines if line.kind != "pointer" and line.raw.strip()]


def _lines(index: Index) -> dict[str, tuple[str, str]]:
    return {line.file: _words(line) for line in index.pointers}


def _words(line: Line) -> tuple[str, str]:
    return line.title, line.hook
