"""Memories that say the same become one: word for word, one within the other, or nearly so (D8).

Only where no judgement is needed. Two that differ in a number, a name, a negation or a piece of code may
contradict each other, and are left for somebody who can tell.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from math import ceil

from nacre.layers.l6_dream.copy import Copy, Topic, is_text
from nacre.memory.format.frontmatter import Document
from nacre.memory.similarity import speaks_of_another, terms

NEAR = 0.8
"""Share of common terms from which on two texts say the same in other words."""
SURE_TERMS = 8
"""From so many terms on, two equal bodies are one memory whatever their titles: nobody says so much twice."""
MAX_HOLDERS = 50
"""Memories that share a sentence or a rare word, beyond which it tells nothing about any two of them."""
ALSO = "Also known as"

_SPLIT = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_BLANKS = re.compile(r"\s+")
_TOKEN = re.compile(r"[^\s,;:()\"“”。，；：（）]+")
_NOT = frozenset(
    "not no never none don't dont doesn't won't can't cannot without stop avoid instead except unless isn't "
    "aren't shouldn't mustn't neither nor".split()
)
_NOT_CHINESE = re.compile("[不别没无非勿未]")
_LINK = re.compile(r"\[\[([^\[\]\n|#]+)([|#][^\[\]\n]*)?\]\]")
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def merge(copy: Copy, *, allowed: int) -> None:
    """Put together what says the same, at most so many; links to what goes are put right."""
    sheets = {topic.entry.file: Sheet(topic) for topic in copy.topics() if is_text(topic)}
    linked = _linked(sheets.values())
    left = allowed
    for one, other in _pairs(sheets):
        if left <= 0:
            return
        if one.file in sheets and other.file in sheets and _is_merged(copy, one, other, linked):
            left -= 1
            for gone in {one.file, other.file} - copy.now.keys():
                sheets.pop(gone, None)
            for kept in {one.file, other.file} & copy.now.keys():
                sheets[kept] = Sheet(copy.topic(kept))


@dataclass(frozen=True)
class Sheet:
    """A memory, and what comparing it takes."""

    topic: Topic

    @property
    def file(self) -> str:
        return self.topic.entry.file

    @cached_property
    def body(self) -> str:
        """In one line, as far as the eye can tell."""
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
    """The sentences and lines of a text, spelled alike."""
    for part in _SPLIT.split(text):
        plain = _BLANKS.sub(" ", part.strip().lstrip("-*+> ").strip()).casefold().rstrip(".!。！")
        if plain:
            yield plain


def _pairs(sheets: Mapping[str, Sheet]) -> list[tuple[Sheet, Sheet]]:
    """Those worth a closer look, the surest first."""
    ones = list(sheets.values())
    found: dict[tuple[str, str], tuple[int, Sheet, Sheet]] = {}
    for rank, pairs in enumerate((_same_bodies(ones), _shared_sentences(ones), _near(ones))):
        for one, other in pairs:
            first, second = sorted((one, other), key=lambda sheet: sheet.file)
            found.setdefault((first.file, second.file), (rank, first, second))
    return [(one, other) for _, one, other in sorted(found.values(), key=lambda each: each[0])]


def _same_bodies(sheets: Sequence[Sheet]) -> Iterator[tuple[Sheet, Sheet]]:
    by_body: dict[str, list[Sheet]] = defaultdict(list)
    for sheet in sheets:
        if sheet.body:
            by_body[sheet.body].append(sheet)
    for group in by_body.values():
        for other in group[1:]:
            yield group[0], other


def _shared_sentences(sheets: Sequence[Sheet]) -> Iterator[tuple[Sheet, Sheet]]:
    """Pairs of which one may hold all that the other says: they share its rarest sentence."""
    holders: dict[str, list[Sheet]] = defaultdict(list)
    for sheet in sheets:
        for sentence in set(sheet.sentences):
            holders[sentence].append(sheet)
    for sheet in sheets:
        if sheet.sentences:
            rarest = min(sheet.sentences, key=lambda sentence: (len(holders[sentence]), sentence))
            if 1 < len(holders[rarest]) <= MAX_HOLDERS:
                yield from ((sheet, other) for other in holders[rarest] if other is not sheet)


def _near(sheets: Sequence[Sheet]) -> Iterator[tuple[Sheet, Sheet]]:
    """Pairs with most of their terms in common; such a pair shares one of the rarest few of each."""
    spread = Counter(term for sheet in sheets for term in sheet.terms)
    holders: dict[str, list[int]] = defaultdict(list)
    for number, sheet in enumerate(sheets):
        rare = sorted(sheet.terms, key=lambda term: (spread[term], term))
        few = [term for term in rare[: len(rare) - ceil(NEAR * len(rare)) + 1] if spread[term] <= MAX_HOLDERS]
        least = NEAR * len(rare)
        most = len(rare) / NEAR
        for other in {at for term in few for at in holders[term]}:
            theirs = sheets[other].terms
            if least <= len(theirs) <= most and _share(sheet.terms, theirs) >= NEAR:
                yield sheet, sheets[other]
        for term in few:
            holders[term].append(number)


def _is_merged(copy: Copy, one: Sheet, other: Sheet, linked: Mapping[str, Collection[str]]) -> bool:
    """Merge two if they say the same and may be merged; whether it was done."""
    first = copy.topic(one.file)
    second = copy.topic(other.file)
    one = Sheet(first)
    other = Sheet(second)
    if not _is_alike(first, second) or not _says_the_same(one, other):
        return False
    kept, gone = _kept_and_gone(copy, one, other)
    data = _joined(kept, gone)
    is_changed = data != kept.topic.document.data
    if not copy.is_free(gone.file) or not (
        copy.is_free(kept.file) or _is_only_pinned(copy, kept, is_changed)
    ):
        # Who wrote one of the two, or took a merge back, may have meant to have both.
        if not is_changed and gone.file not in copy.pinned:
            copy.propose(gone.file, None, f"says the same as {kept.file}")
        return False
    names = (_name(gone), _plain(gone.topic.entry.title))
    referring = sorted(
        {file for name in names for file in linked.get(name, ())} & copy.now.keys() - {gone.file}
    )
    if not all(copy.is_free(file) for file in referring):
        return False
    group = copy.next_group()
    if is_changed:
        copy.write(kept.file, data, f"took over what {gone.file} said", group=group)
    for file in referring:
        copy.write(file, _relinked(copy.topic(file), gone, kept), f"links to {kept.file}", group=group)
    copy.remove(gone.file, f"merged into {kept.file}", into=kept.file, group=group)
    return True


def _is_only_pinned(copy: Copy, kept: Sheet, is_changed: bool) -> bool:
    """Whether a memory may stand for another as it is: what is pinned keeps every byte."""
    return not is_changed and kept.file not in copy.theirs


def _is_alike(one: Topic, other: Topic) -> bool:
    """Whether nothing but the words stands between them: who said it, who may see it, what kind it is."""
    first = one.entry
    second = other.entry
    kinds = {first.kind, second.kind} - {None}
    return (
        len(kinds) <= 1
        and first.origin == second.origin
        and first.local_only == second.local_only
        and first.is_unlisted == second.is_unlisted
    )


def _says_the_same(one: Sheet, other: Sheet) -> bool:
    if not one.body or not other.body:
        return False
    descriptions = {sheet.topic.entry.description.strip() for sheet in (one, other)}
    is_sure = len(one.terms) >= SURE_TERMS or len(descriptions) == 1
    if one.body == other.body and is_sure:
        return True
    all_of = one.head | one.terms, other.head | other.terms
    if speaks_of_another(one.title, all_of[0], other.title, all_of[1]):
        return False
    if one.body == other.body or set(one.sentences) == set(other.sentences):
        return True
    shorter, longer = sorted((set(one.sentences), set(other.sentences)), key=len)
    if shorter <= longer:
        return _share(one.head, other.head) > 0
    return _share(one.terms, other.terms) >= NEAR and not contradicts(one.body, other.body)


def contradicts(one: str, other: str) -> bool:
    """Whether what two texts do not share could change what they say."""
    first, second = ({token.strip(".!?") for token in _TOKEN.findall(text)} for text in (one, other))
    apart = (first - second) | (second - first)
    lowered = {token.casefold() for token in first} & {token.casefold() for token in second}
    return any(_counts(token) for token in apart if token.casefold() not in lowered)


def _counts(token: str) -> bool:
    """A number, a negation, a name, or something of a machine's."""
    return (
        any(char.isdigit() for char in token)
        or token.casefold() in _NOT
        or bool(_NOT_CHINESE.search(token))
        or any(char in "`/_=<>\\@#$" for char in token)
        or token[:1].isupper()
    )


def _kept_and_gone(copy: Copy, one: Sheet, other: Sheet) -> tuple[Sheet, Sheet]:
    def worth(sheet: Sheet) -> tuple[bool, bool, bool, datetime, int]:
        entry = sheet.topic.entry
        rest = other if sheet is one else one
        holds_all = set(rest.sentences) <= set(sheet.sentences)
        return entry.pinned, holds_all, sheet.file in copy.theirs, sheet.when, -len(sheet.file)

    kept, gone = sorted((one, other), key=lambda sheet: (worth(sheet), sheet.file), reverse=True)
    return kept, gone


def _joined(kept: Sheet, gone: Sheet) -> bytes:
    """The kept memory with what only the other one says; what that one was called is kept, too."""
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
        data = Document.parse(data).with_fields(source=sources)
    return data


def _is_known(line: str, known: Collection[str]) -> bool:
    """Whether every sentence of a line is there already, or one that says nearly the same."""
    return all(
        sentence in known or any(_is_near(sentence, other) for other in known) for sentence in sentences(line)
    )


def _is_near(one: str, other: str) -> bool:
    return _share(frozenset(terms(one)), frozenset(terms(other))) >= NEAR and not contradicts(one, other)


def _linked(sheets: Collection[Sheet]) -> dict[str, set[str]]:
    """Which memories link to a name."""
    found: dict[str, set[str]] = defaultdict(set)
    for sheet in sheets:
        if "[[" in sheet.topic.entry.body:
            for link in _LINK.finditer(sheet.topic.entry.body):
                found[_plain(link[1])].add(sheet.file)
    return found


def _relinked(topic: Topic, gone: Sheet, kept: Sheet) -> bytes:
    names = {_plain(gone.topic.entry.title), _name(gone)}
    target = kept.file.rpartition("/")[2].removesuffix(".md")
    body = _LINK.sub(
        lambda link: f"[[{target}{link[2] or ''}]]" if _plain(link[1]) in names else link[0], topic.entry.body
    )
    return topic.document.with_body(body)


def _name(sheet: Sheet) -> str:
    return _plain(sheet.file.rpartition("/")[2].removesuffix(".md"))


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", "-", text.removesuffix(".md").lower()).strip("-")


def _share(one: frozenset[str], other: frozenset[str]) -> float:
    common = len(one & other)
    return common / (len(one) + len(other) - common) if common else 0.0
