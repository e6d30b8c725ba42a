"""Merges memories that say the same: identical, one contained in the other, or nearly identical (D8).

Two memories that differ in a number, a name, a negation or a piece of code may contradict each other and are
not merged.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import SequenceMatcher
from functools import cached_property
from math import ceil

from nacre.layers.l6_dream.copy import DirectoryCopy, Topic, is_text
from nacre.memory.dates.calendar import WEEKDAYS
from nacre.memory.format.frontmatter import MarkdownFile
from nacre.memory.similarity import has_other_subject, terms

NEAR = 0.8
"""Share of common terms from which two texts count as similar."""
SURE_TERMS = 8
"""Equal bodies with at least this many terms are merged whatever their titles."""
MAX_HOLDERS = 50
"""A sentence or word that more memories share says nothing about any two of them."""
ALSO = "Also known as"
MIN_SHARED_TERMS = 2
"""Terms that two sentences about the same subject have in common."""
MAX_VALUE_WORDS = 4
"""Words of a value; more are another statement."""

_SPLIT = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_BLANKS = re.compile(r"\s+")
_TOKEN = re.compile(r"[^\s,;:()\"“”。，；：（）]+")
_NOT = frozenset(
    "not no never none don't dont doesn't won't can't cannot without stop avoid instead except unless isn't "
    "aren't shouldn't mustn't neither nor".split()
)
_NOT_CHINESE = re.compile("[不别没无非勿未]")
_LINK = re.compile(r"\[\[([^\[\]\n|#]+)([|#][^\[\]\n]*)?\]\]")
_WORD = re.compile(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff](?:[\w'’.:/-]*\w)?")
_HAN_NUMBERS = frozenset("一二三四五六七八九十两")
_CHANGED = re.compile(
    r"\b(?:now|since|no longer|any ?more|moved|switched|replaced|renamed|changed|instead|took over|as of)\b"
    r"|现在|改成|改为|换成|搬到|不再|已经",
    re.IGNORECASE,
)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def merge(copy: DirectoryCopy, *, allowed: int) -> None:
    """Merge memories that say the same, at most so many, and update links to removed ones."""
    memories = {topic.entry.file: ComparedMemory(topic) for topic in copy.topics() if is_text(topic)}
    linked = _links(memories.values())
    left = allowed
    for one, other in _pairs(memories):
        if left <= 0:
            return
        if one.file in memories and other.file in memories and _try_merge(copy, one, other, linked):
            left -= 1
            for gone in {one.file, other.file} - copy.now.keys():
                memories.pop(gone, None)
            for kept in {one.file, other.file} & copy.now.keys():
                memories[kept] = ComparedMemory(copy.topic(kept))


@dataclass(frozen=True)
class ComparedMemory:
    """A memory with what is needed to compare it."""

    topic: Topic

    @property
    def file(self) -> str:
        return self.topic.entry.file

    @cached_property
    def body(self) -> str:
        """The body on one line."""
        return _BLANKS.sub(" ", self.topic.entry.body).strip()

    @cached_property
    def terms(self) -> frozenset[str]:
        return frozenset(terms(self.topic.entry.body))

    @cached_property
    def title(self) -> tuple[str, ...]:
        return tuple(terms(self.topic.entry.title))

    @cached_property
    def head(self) -> frozenset[str]:
        return frozenset(terms(f"{self.topic.entry.title} {self.topic.entry.description}"))

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        return tuple(sentences(self.topic.entry.body))

    @property
    def when(self) -> datetime:
        entry = self.topic.entry
        return entry.modified or entry.created or entry.written or _LONG_AGO


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences and lines of a text in a normalised spelling."""
    for part in _SPLIT.split(text):
        plain = _BLANKS.sub(" ", part.strip().lstrip("-*+> ").strip()).casefold().rstrip(".!。！")
        if plain:
            yield plain


def _pairs(memories: Mapping[str, ComparedMemory]) -> list[tuple[ComparedMemory, ComparedMemory]]:
    """Return the candidate pairs, the most certain first."""
    ones = list(memories.values())
    found: dict[tuple[str, str], tuple[int, ComparedMemory, ComparedMemory]] = {}
    for rank, pairs in enumerate((_same_bodies(ones), _shared_sentences(ones), _similar_bodies(ones))):
        for one, other in pairs:
            first, second = sorted((one, other), key=lambda memory: memory.file)
            found.setdefault((first.file, second.file), (rank, first, second))
    return [(one, other) for _, one, other in sorted(found.values(), key=lambda each: each[0])]


def _same_bodies(memories: Sequence[ComparedMemory]) -> Iterator[tuple[ComparedMemory, ComparedMemory]]:
    by_body: dict[str, list[ComparedMemory]] = defaultdict(list)
    for memory in memories:
        if memory.body:
            by_body[memory.body].append(memory)
    for group in by_body.values():
        for other in group[1:]:
            yield group[0], other


def _shared_sentences(memories: Sequence[ComparedMemory]) -> Iterator[tuple[ComparedMemory, ComparedMemory]]:
    """Yield pairs of which one may contain the other: they share its rarest sentence."""
    holders: dict[str, list[ComparedMemory]] = defaultdict(list)
    for memory in memories:
        for sentence in set(memory.sentences):
            holders[sentence].append(memory)
    for memory in memories:
        if memory.sentences:
            rarest = min(memory.sentences, key=lambda sentence: (len(holders[sentence]), sentence))
            if 1 < len(holders[rarest]) <= MAX_HOLDERS:
                yield from ((memory, other) for other in holders[rarest] if other is not memory)


def _similar_bodies(memories: Sequence[ComparedMemory]) -> Iterator[tuple[ComparedMemory, ComparedMemory]]:
    """Yield pairs with most of their terms in common; such pairs share one of the rarest few of each."""
    spread = Counter(term for memory in memories for term in memory.terms)
    holders: dict[str, list[int]] = defaultdict(list)
    for number, memory in enumerate(memories):
        rare = sorted(memory.terms, key=lambda term: (spread[term], term))
        few = [term for term in rare[: len(rare) - ceil(NEAR * len(rare)) + 1] if spread[term] <= MAX_HOLDERS]
        least = NEAR * len(rare)
        most = len(rare) / NEAR
        for other in {at for term in few for at in holders[term]}:
            theirs = memories[other].terms
            if least <= len(theirs) <= most and _share(memory.terms, theirs) >= NEAR:
                yield memory, memories[other]
        for term in few:
            holders[term].append(number)


def _try_merge(
    copy: DirectoryCopy, one: ComparedMemory, other: ComparedMemory, linked: Mapping[str, Collection[str]]
) -> bool:
    """Merge two memories if they say the same and may be merged; return whether that was done."""
    first = copy.topic(one.file)
    second = copy.topic(other.file)
    one = ComparedMemory(first)
    other = ComparedMemory(second)
    if not _is_compatible(first, second) or not _is_same(one, other):
        return False
    kept, gone = _ordered(copy, one, other)
    data = _joined(kept, gone)
    is_changed = data != kept.topic.document.data
    # A pinned memory may replace another one if it does not change.
    may_keep = copy.is_free(kept.file) or (not is_changed and kept.file not in copy.by_person)
    if not copy.is_free(gone.file) or not may_keep:
        # A person who wrote one of the two, or undid a merge, may want both.
        if not is_changed and gone.file not in copy.pinned:
            copy.propose(gone.file, None, f"says the same as {kept.file}")
        return False
    names = (_name(gone), _slug(gone.topic.entry.title))
    referring = sorted(
        {file for name in names for file in linked.get(name, ())} & copy.now.keys() - {gone.file}
    )
    if not all(copy.is_free(file) for file in referring):
        return False
    group = copy.next_group()
    if is_changed:
        copy.write(kept.file, data, f"took over what {gone.file} said", group=group)
    target = kept.file.rpartition("/")[2].removesuffix(".md")
    for file in referring:
        topic = copy.topic(file)
        body = _LINK.sub(
            lambda link: f"[[{target}{link[2] or ''}]]" if _slug(link[1]) in names else link[0],
            topic.entry.body,
        )
        copy.write(file, topic.document.with_body(body), f"links to {kept.file}", group=group)
    copy.remove(gone.file, f"merged into {kept.file}", into=kept.file, group=group)
    return True


def _is_compatible(one: Topic, other: Topic) -> bool:
    """Whether two memories have the same kind, origin and visibility."""
    first = one.entry
    second = other.entry
    kinds = {first.kind, second.kind} - {None}
    return (
        len(kinds) <= 1
        and first.origin == second.origin
        and first.local_only == second.local_only
        and first.is_unlisted == second.is_unlisted
    )


def _is_same(one: ComparedMemory, other: ComparedMemory) -> bool:
    if not one.body or not other.body:
        return False
    descriptions = {memory.topic.entry.description.strip() for memory in (one, other)}
    is_sure = len(one.terms) >= SURE_TERMS or len(descriptions) == 1
    if one.body == other.body and is_sure:
        return True
    all_of = one.head | one.terms, other.head | other.terms
    if has_other_subject(one.title, all_of[0], other.title, all_of[1]):
        return False
    if one.body == other.body or set(one.sentences) == set(other.sentences):
        return True
    shorter, longer = sorted((set(one.sentences), set(other.sentences)), key=len)
    if shorter <= longer:
        return _share(one.head, other.head) > 0
    return _share(one.terms, other.terms) >= NEAR and not contradicts(one.body, other.body)


def contradicts(one: str, other: str) -> bool:
    """Whether a word that only one of two texts has could change its meaning."""
    first, second = ({token.strip(".!?") for token in _TOKEN.findall(text)} for text in (one, other))
    apart = (first - second) | (second - first)
    lowered = {token.casefold() for token in first} & {token.casefold() for token in second}
    return any(_is_significant(token) for token in apart if token.casefold() not in lowered)


def is_contradicted(old: str, new: str) -> bool:
    """Whether a sentence says of the same subject something else: one value differs, or a negation.

    Another number or weekday is enough. For another name or word, the new sentence must say that it changed:
    "Priya owns Orchard" does not contradict "Priya owns Gannet".
    """
    mine, theirs = ([one.casefold() for one in _WORD.findall(text)] for text in (old, new))
    steps = SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes()
    shared = {word for kind, start, end, *_ in steps if kind == "equal" for word in mine[start:end]}
    gone = [
        (mine[a:b], theirs[c:d], a == 0 or b == len(mine))
        for kind, a, b, c, d in steps
        if kind in {"replace", "delete"}
    ]
    added = [word for kind, _, _, c, d in steps if kind == "insert" for word in theirs[c:d]]
    if len(terms(" ".join(shared))) < MIN_SHARED_TERMS or len(gone) > 1:
        return False
    if not gone:
        return any(_is_negation(word) for word in added)
    was, is_now, is_at_an_end = gone[0]
    if len(was) > MAX_VALUE_WORDS or not (is_now or any(map(_is_negation, was))):
        return False
    is_value = any(map(_is_value, was)) and any(map(_is_value, is_now))
    # In the middle of a sentence another word is another subject: "the staging limit", "the upload limit".
    is_changed = is_at_an_end and bool(_CHANGED.search(new))
    return is_value or any(map(_is_negation, [*was, *is_now])) or is_changed


def _is_negation(word: str) -> bool:
    return word in _NOT or bool(_NOT_CHINESE.search(word))


def _is_value(word: str) -> bool:
    """Whether a word is a number or a day of the week."""
    return any(char.isdigit() for char in word) or word.removesuffix("s") in WEEKDAYS or word in _HAN_NUMBERS


def _is_significant(token: str) -> bool:
    """Whether a token is a number, a negation, a name or part of code."""
    return (
        any(char.isdigit() for char in token)
        or token.casefold() in _NOT
        or bool(_NOT_CHINESE.search(token))
        or any(char in "`/_=<>\\@#$" for char in token)
        or token[:1].isupper()
    )


def _ordered(
    copy: DirectoryCopy, one: ComparedMemory, other: ComparedMemory
) -> tuple[ComparedMemory, ComparedMemory]:
    """Return the memory to keep and the one to remove."""

    def worth(memory: ComparedMemory) -> tuple[bool, bool, bool, datetime, int]:
        entry = memory.topic.entry
        rest = other if memory is one else one
        holds_all = set(rest.sentences) <= set(memory.sentences)
        return entry.pinned, holds_all, memory.file in copy.by_person, memory.when, -len(memory.file)

    kept, gone = sorted((one, other), key=lambda memory: (worth(memory), memory.file), reverse=True)
    return kept, gone


def _joined(kept: ComparedMemory, gone: ComparedMemory) -> bytes:
    """Return the kept memory with what only the other one says, its title included."""
    body = kept.topic.entry.body
    known = set(kept.sentences)
    more = [line for line in gone.topic.entry.body.split("\n") if not _is_known(line, known)]
    text = "\n".join(more).strip("\n")
    document = kept.topic.document
    entry = gone.topic.entry
    if text.strip():
        body = f"{body.rstrip()}\n\n{text.rstrip()}\n"
    said = frozenset(terms(f"{kept.topic.text}\n{text}"))
    if not gone.head <= said:
        about = f"{entry.title} — {entry.description}" if entry.description else entry.title
        body = f"{body.rstrip()}\n\n{ALSO}: {about}\n"
    data = document.with_body(body) if body != kept.topic.entry.body else document.data
    sources = tuple(dict.fromkeys((*kept.topic.entry.sources, *entry.sources)))
    if data != document.data and sources and sources != kept.topic.entry.sources:
        data = MarkdownFile.parse(data).with_fields(source=sources)
    return data


def _is_known(line: str, known: Collection[str]) -> bool:
    """Whether every sentence of a line, or a similar one, is known."""
    return all(
        sentence in known
        or any(
            _share(frozenset(terms(sentence)), frozenset(terms(other))) >= NEAR
            and not contradicts(sentence, other)
            for other in known
        )
        for sentence in sentences(line)
    )


def _links(memories: Collection[ComparedMemory]) -> dict[str, set[str]]:
    """Return the files that link to each name."""
    found: dict[str, set[str]] = defaultdict(set)
    for memory in memories:
        if "[[" in memory.topic.entry.body:
            for link in _LINK.finditer(memory.topic.entry.body):
                found[_slug(link[1])].add(memory.file)
    return found


def _name(memory: ComparedMemory) -> str:
    return _slug(memory.file.rpartition("/")[2].removesuffix(".md"))


def _slug(text: str) -> str:
    return re.sub(r"[\W_]+", "-", text.removesuffix(".md").lower()).strip("-")


def _share(one: frozenset[str], other: frozenset[str]) -> float:
    common = len(one & other)
    return common / (len(one) + len(other) - common) if common else 0.0
