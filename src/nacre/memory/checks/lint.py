"""Lint a memory directory: problems with messages for its owner, and fixes (M14)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.memory.files.folder import TEAM, conflict, is_ours
from nacre.memory.files.location import Location
from nacre.memory.files.scan import LOGS, NotAMemory, SkippedFile, read_head, scan
from nacre.memory.format.entry import KINDS, Entry, Kind, MemoryChange, description_of, entry_of
from nacre.memory.format.frontmatter import NESTED_UNDER, MarkdownFile
from nacre.memory.format.index import INDEX_FILE, MemoryIndex, index_usage, is_listable

if TYPE_CHECKING:
    from nacre.memory.files.watch import Watch

MAX_LINE_CHARS = 250
"""Longer lines are reported; pointers should have about 150 characters."""
MIN_DESCRIPTION_WORDS = 3
"""A description with fewer words is vague."""
MIN_DESCRIPTION_CHARS = 12
"""The same for scripts without blanks between words."""

ProblemKind: TypeAlias = Literal[
    "dangling-pointer", "unlisted", "untrusted-listed", "duplicate-pointer", "long-index", "long-line",
    "index-frontmatter", "untyped", "no-description", "vague-description", "frontmatter", "duplicate-name",
    "broken-link", "odd-file", "relative-date",
]  # fmt: skip
Level: TypeAlias = Literal["error", "warning", "info"]

_LEVELS: dict[ProblemKind, Level] = {
    "dangling-pointer": "error", "untrusted-listed": "error", "odd-file": "error", "long-line": "info",
    "relative-date": "info", "untyped": "info", "vague-description": "info",
}  # fmt: skip
_WIKI_LINK = re.compile(r"\[\[([^\[\]\n|#]+)(?:[|#][^\[\]\n]*)?\]\]")
_FENCE = re.compile(r"[ \t]*+(```|~~~)")
_TICKS = re.compile(r"`++")
_CODE_SPAN = re.compile(r"`[^`]*+`")
_RELATIVE = re.compile(
    r"\b(yesterday|today|tonight|tomorrow|(?:a few|\d+) (?:days|weeks|months) ago|"
    r"(?:last|next|this) (?:week|month|year|(?:mon|tues|wednes|thurs|fri|satur|sun)day))\b|"
    r"(昨天|今天|明天|上周|下周|上个月|下个月)",
    re.IGNORECASE,
)
_ABSOLUTE = re.compile(r"\b(?:19|20)\d\d\b|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{1,2}月\d{1,2}[日号]")


@dataclass(frozen=True, slots=True)
class LintProblem:
    """One problem, and whether it can be fixed automatically."""

    file: str
    kind: ProblemKind
    message: str
    fixable: bool = False

    @property
    def level(self) -> Level:
        return _LEVELS.get(self.kind, "warning")


@dataclass(frozen=True, slots=True)
class LintFix:
    """The bytes of a file before and after a fix."""

    file: str
    before: bytes
    """Empty when the file is new."""
    after: bytes


def lint(directory: Path, *, with_index: bool = True) -> list[LintProblem]:
    """Return all problems, by file; without index checks where the index is off (M19)."""
    folder = _LintedFolder.read(directory)
    problems = [LintProblem(one.file, "odd-file", f"{one.file} {one.why}") for one in folder.skipped]
    for topic in folder.topics:
        problems += [*_header_problems(topic, folder), *_text_problems(topic.entry, folder)]
    if with_index:
        problems += _index_problems(folder)
    return sorted(problems, key=lambda one: (one.file, one.kind, one.message))


def fixes(directory: Path, *, with_index: bool = True) -> list[LintFix]:
    """Return new bytes for every file with a fixable problem."""
    folder = _LintedFolder.read(directory)
    found = [
        LintFix(topic.entry.file, topic.document.data, fixed)
        for topic in folder.topics
        if (fixed := _fixed_topic(topic)) != topic.document.data
    ]
    if with_index:
        for prefix, index in folder.indexes.items():
            fixed = _fixed_index(prefix, index, folder)
            if fixed != index.data:
                found.append(LintFix(prefix + INDEX_FILE, index.data, fixed))
    return found


@dataclass(frozen=True, slots=True)
class _Topic:
    entry: Entry
    document: MarkdownFile


@dataclass(frozen=True)
class _LintedFolder:
    """The content of a memory directory."""

    topics: tuple[_Topic, ...]
    skipped: tuple[SkippedFile, ...]
    indexes: Mapping[str, MemoryIndex]
    """By folder: `""`, `ops/`."""
    names: Mapping[str, list[str]]
    """Files by normalised name."""
    known: frozenset[str]
    """Normalised names and files that a link may refer to, those of the team included."""
    apart: frozenset[str]
    """Daily logs and team files: not entries here, but a pointer may name one (M17, M18)."""

    @classmethod
    def read(cls, directory: Path) -> _LintedFolder:
        found = scan(directory)
        topics: list[_Topic] = []
        skipped = list(found.skipped)
        indexes = {"": MemoryIndex.parse(b"")}
        for entry in sorted(found.entries, key=lambda one: one.file):
            try:
                document = MarkdownFile.parse(read_head(str(directory / entry.file), whole=True).data)
            except (OSError, NotAMemory) as error:
                skipped.append(SkippedFile(entry.file, f"cannot be read: {error}"))
                continue
            if any(problem.kind == "encoding" for problem in document.problems):
                skipped.append(SkippedFile(entry.file, "is not UTF-8"))
                continue
            whole = entry_of(document.fields, file=entry.file, written=entry.written, indexed=entry.indexed)
            topics.append(_Topic(replace(whole, body=document.body), document))
        for prefix in sorted({"", *(_folder_of(entry.file) for entry in found.entries)}):
            try:
                indexes[prefix] = MemoryIndex.parse(
                    read_head(str(directory / prefix / INDEX_FILE), whole=True).data
                )
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, NotAMemory) as error:
                indexes.pop(prefix, None)
                skipped.append(SkippedFile(prefix + INDEX_FILE, f"cannot be read: {error}"))
        names: dict[str, list[str]] = {}
        for topic in topics:
            names.setdefault(_slug(topic.entry.name), []).append(topic.entry.file)
        team = scan(directory / TEAM).entries
        files = (entry.file for entry in (*team, *(topic.entry for topic in topics)))
        known = frozenset((*names, *map(_slug, map(_stem, files)), *(_slug(one.name) for one in team)))
        paths = (path for name in (LOGS, TEAM) for path in (directory / name).rglob("*.md"))
        apart = frozenset(path.relative_to(directory).as_posix() for path in paths)
        return cls(tuple(topics), tuple(skipped), indexes, names, known, apart)

    def index_of(self, file: str) -> str:
        """Return the folder whose index lists this file."""
        prefix = _folder_of(file)
        while prefix and prefix not in self.indexes:
            prefix = _folder_of(prefix.rstrip("/"))
        return prefix

    @cached_property
    def listed(self) -> set[str]:
        return {prefix + file for prefix, index in self.indexes.items() for file in index.mentions}

    @cached_property
    def untrusted(self) -> set[str]:
        return {topic.entry.file for topic in self.topics if not topic.entry.is_trusted}

    @cached_property
    def files(self) -> set[str]:
        """All files that a pointer may name, skipped ones included."""
        return {topic.entry.file for topic in self.topics} | {one.file for one in self.skipped} | self.apart


def _header_problems(topic: _Topic, folder: _LintedFolder) -> Iterable[LintProblem]:
    entry = topic.entry
    file = entry.file
    for odd in topic.document.problems:
        fixable = odd.kind == "unterminated" and topic.document.has_frontmatter
        yield LintProblem(file, "frontmatter", odd.message, fixable)
    for key, error in misread_fields(topic.document).items():
        what = f"`{key}`" if key else "the frontmatter"
        yield LintProblem(file, "frontmatter", f"{what} {error}", bool(key))
    if entry.kind is None:
        message = f"no type: give it one of {', '.join(KINDS)}"
        yield LintProblem(file, "untyped", message, _kind_by_name(file) is not None)
    if not entry.description:
        message = "no description: the index line and a selector go by it, so this memory is found less often"
        yield LintProblem(file, "no-description", message, bool(description_of(entry.body, entry.title)))
    elif _is_vague(entry):
        message = f"`{entry.description}` does not say what this memory is about"
        yield LintProblem(file, "vague-description", message)
    alike = [other for other in folder.names[_slug(entry.name)] if other != file]
    if alike and entry.name:
        yield LintProblem(file, "duplicate-name", f"`{entry.name}` is also the name of {', '.join(alike)}")


def _text_problems(entry: Entry, folder: _LintedFolder) -> Iterable[LintProblem]:
    text = "\n".join(_without_code(entry.body))
    for link in links_in(entry.body):
        if link_key(link) not in folder.known:
            yield LintProblem(entry.file, "broken-link", f"[[{link}]] leads to no memory")
    for line in text.splitlines():
        found = _RELATIVE.search(line)
        if found and not _ABSOLUTE.search(line):
            message = f"`{found[0]}` means another day to every reader: write the date"
            yield LintProblem(entry.file, "relative-date", message)
            return


def links_in(body: str) -> tuple[str, ...]:
    """Return what the `[[links]]` of a text name, each once; code is left out."""
    if "[[" not in body:
        return ()
    text = "\n".join(_without_code(body))
    return tuple(dict.fromkeys(found[1].strip() for found in _WIKI_LINK.finditer(text)))


def link_key(name: str) -> str:
    """Return the form in which a link equals the name or the file of a memory."""
    return _slug(_stem(name))


def lint_file(directory: Path, file: str, data: bytes) -> list[LintProblem]:
    """Return the problems that one file would have with these bytes; indexes are not read."""
    document = MarkdownFile.parse(data)
    topic = _Topic(replace(entry_of(document.fields, file=file), body=document.body), document)
    others = [one for one in scan(directory).entries if one.file != file]
    names: dict[str, list[str]] = {}
    for one in (topic.entry, *others):
        names.setdefault(_slug(one.name), []).append(one.file)
    team = scan(directory / TEAM).entries
    files = (one.file for one in (*team, *others, topic.entry))
    known = frozenset((*names, *map(link_key, files), *(_slug(one.name) for one in team)))
    folder = _LintedFolder((topic,), (), {}, names, known, frozenset())
    found = [*_header_problems(topic, folder), *_text_problems(topic.entry, folder)]
    return sorted(found, key=lambda one: (one.kind, one.message))


def _without_code(body: str) -> Iterable[str]:
    """Yield the lines of a body outside of code."""
    fence = ""
    for line in body.splitlines():
        found = _FENCE.match(line)
        if found and fence in {"", found[1]}:
            fence = "" if fence else found[1]
        elif not fence:
            yield _CODE_SPAN.sub("", _TICKS.sub("`", line)) if "`" in line else line


def _index_problems(folder: _LintedFolder) -> Iterable[LintProblem]:
    for prefix, index in folder.indexes.items():
        yield from _line_problems(prefix, index, folder)
        if feedback := index_usage(index.data).feedback:
            yield LintProblem(prefix + INDEX_FILE, "long-index", feedback)
        if MarkdownFile.parse(index.data).fields:
            message = "an index has no frontmatter: remove it"
            yield LintProblem(prefix + INDEX_FILE, "index-frontmatter", message)
    for topic in folder.topics:
        file = topic.entry.file
        nearest = folder.indexes.get(folder.index_of(file))
        is_missing = is_listable(topic.entry) and file not in folder.listed
        if is_missing and nearest is not None and _fits_one_more(nearest):
            yield LintProblem(file, "unlisted", f"no index points to {file}", fixable=True)


def _line_problems(prefix: str, index: MemoryIndex, folder: _LintedFolder) -> Iterable[LintProblem]:
    at = prefix + INDEX_FILE
    seen: set[str] = set()
    for line in index.pointers:
        file = prefix + line.file
        if file not in folder.files:
            message = f"[{line.title}]({line.file}) points to nothing"
            yield LintProblem(at, "dangling-pointer", message, fixable=True)
        elif file in folder.untrusted:
            message = f"{line.file} is untrusted, so no index may name it"
            yield LintProblem(at, "untrusted-listed", message, fixable=True)
        elif line.file in seen:
            yield LintProblem(at, "duplicate-pointer", f"{line.file} is listed twice", fixable=True)
        seen.add(line.file)
        if len(line.raw) > MAX_LINE_CHARS:
            message = f"the line of {line.file} has {len(line.raw)} characters: move detail there"
            yield LintProblem(at, "long-line", message)


def _fixed_topic(topic: _Topic) -> bytes:
    document = MarkdownFile.parse(topic.document.closed())
    for key in misread_fields(document):
        if key:
            document = MarkdownFile.parse(document.with_quotes(key))
    entry = topic.entry
    if not entry.description and (said := description_of(entry.body, entry.title)):
        document = MarkdownFile.parse(document.with_fields(description=said))
    if entry.kind is None and (kind := _kind_by_name(entry.file)):
        document = MarkdownFile.parse(document.with_fields(type=kind))
    return document.data


def _fixed_index(prefix: str, index: MemoryIndex, folder: _LintedFolder) -> bytes:
    index = _without_duplicates(index)
    for line in index.pointers:
        if prefix + line.file not in folder.files or prefix + line.file in folder.untrusted:
            index = MemoryIndex.parse(index.without(line.file))
    for topic in folder.topics:
        entry = topic.entry
        is_missing = is_listable(entry) and entry.file not in folder.listed
        if is_missing and folder.index_of(entry.file) == prefix and _fits_one_more(index):
            said = entry.description or description_of(entry.body, entry.title)
            file = entry.file.removeprefix(prefix)
            index = MemoryIndex.parse(index.with_pointer(file, entry.title, said, kind=entry.kind))
    return index.data


def _without_duplicates(index: MemoryIndex) -> MemoryIndex:
    """Return an index with one pointer per file: the longest, in the place of the first."""
    longest: dict[str, str] = {}
    for line in index.pointers:
        longest[line.file] = max(longest.get(line.file, ""), line.raw.rstrip("\r\n"), key=len)
    raws: list[str] = []
    for line in index.lines:
        if line.kind != "pointer":
            raws.append(line.raw)
        elif best := longest.pop(line.file, ""):
            raws.append(best + line.raw[len(line.raw.rstrip("\r\n")) :])
    return MemoryIndex.parse("".join(raws).encode(errors="surrogateescape"))


def _fits_one_more(index: MemoryIndex) -> bool:
    # With more memories than fit, the rest are correctly unlisted (M8).
    return index_usage(index.data + b"x" * 150 + b"\n").share <= 1


def _is_vague(entry: Entry) -> bool:
    words = entry.description.split()
    is_short = len(words) < MIN_DESCRIPTION_WORDS and len(entry.description) < MIN_DESCRIPTION_CHARS
    # The description of a memory of one sentence is that sentence.
    is_all = _slug(entry.body) == _slug(entry.description)
    return not is_all and (is_short or _slug(entry.description) == _slug(entry.name))


def _kind_by_name(file: str) -> Kind | None:
    stem = _stem(file)
    return next((kind for kind in KINDS if stem.startswith((f"{kind}_", f"{kind}-"))), None)


def _slug(text: str) -> str:
    return re.sub(r"[\W_]+", "-", text.lower()).strip("-")


def _stem(file: str) -> str:
    return file.rpartition("/")[2].removesuffix(".md")


def _folder_of(file: str) -> str:
    folder, slash, _ = file.rpartition("/")
    return folder + slash


_CHECKED = ("name", "description", "type")


def misread_fields(document: MarkdownFile) -> dict[str, str]:
    """Return problems of the frontmatter as YAML, by the key that needs quotes; `""` for none."""
    header = document.header_text
    if not header:
        return {}
    tree = _parsed(header)
    if tree is None:
        guilty = [key for key in document.fields if _parsed(document.lines_of(key)) is None]
        mended = MarkdownFile.parse(document.data)
        for key in guilty:
            mended = MarkdownFile.parse(mended.with_quotes(key))
        if guilty and _parsed(mended.header_text) is not None:
            return dict.fromkeys(guilty, "is no valid YAML, which other programs need: put it in quotes")
        return {"": "is no valid YAML, which other programs need: correct it by hand"}
    below = tree.get(NESTED_UNDER)
    nested = below if isinstance(below, dict) else {}
    read = {key: tree.get(key, nested.get(key, "")) for key in _CHECKED if key in document.fields}
    return {
        key: f"is read as `{value}` by other programs: put it in quotes"
        for key, value in read.items()
        if isinstance(value, str) and value.split() != str(document.fields[key]).split()
    }


def _parsed(text: str) -> dict[str, object] | None:
    # Only lint needs the parser, and importing it takes longer than a scan.
    import yaml  # noqa: PLC0415

    try:
        tree = yaml.load(text, yaml.BaseLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return {str(key): value for key, value in tree.items()} if isinstance(tree, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFixResult:
    """The fixed files and the commit."""

    files: tuple[str, ...]
    commit: str


async def apply_fixes(
    location: Location,
    change: MemoryChange,
    *,
    clock: Clock = SYSTEM_CLOCK,
    watch: Watch | None = None,
    with_index: bool = True,
) -> LintFixResult:
    """Apply all fixes in one commit; a file that changed since it was read is a conflict.

    The index is not changed where it is off (M19) or only the dream writes it (M17).
    """
    # `nacre doctor` lints without an event loop, and importing one takes longer than it may.
    import asyncio  # noqa: PLC0415

    from nacre.memory.files.transaction import transact  # noqa: PLC0415

    async with transact(location, change, clock=clock, watch=watch) as tx:
        found = await asyncio.to_thread(fixes, location.directory, with_index=with_index)
        # The team's folder has a history of its own.
        found = [fix for fix in found if is_ours(fix.file)]
        for fix in found:
            data, version = tx.read(fix.file)
            if (data or b"") != fix.before:
                raise conflict(fix.file)
            tx.write(fix.file, fix.after, if_version=version, keep_time=True)
    return LintFixResult(files=tuple(fix.file for fix in found), commit=tx.commit)
