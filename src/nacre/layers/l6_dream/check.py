"""Whether what a dream did may be kept: the difference as a whole, or nothing of it (D6, D7)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from nacre.errors import OutsideStore
from nacre.layers.l6_dream.by_rule_index import index_problems
from nacre.layers.l6_dream.by_rule_merge import sentences
from nacre.layers.l6_dream.copy import Copy, Step, Topic, is_index, is_log, is_topic
from nacre.layers.l6_dream.finding import Finder
from nacre.layers.l6_dream.policy import DREAM, DreamSettings, may_remove
from nacre.memory.checks.grounding import is_blank, ungrounded
from nacre.memory.checks.grounding import lost as lost_claims
from nacre.memory.checks.origins import origin_of
from nacre.memory.dates.relative import days
from nacre.memory.files.containment import topic_inside
from nacre.memory.files.folder import MAX_BYTES
from nacre.memory.format.entry import one_line
from nacre.memory.format.index import INDEX_FILE, Index
from nacre.memory.secrets import find_secrets
from nacre.memory.similarity import terms

MAX_TOLD = 5
"""Problems of one kind that are named; more of them say nothing new."""
_PUT_BACK = "put it back, or end your last reply with a line `DROPPED: {} because ...`"
_ENDING = re.compile(
    r"\b(by|until|till|due|deadline|ends?|ending|expires?|before|through|freeze|frozen|cut-?off|launch(?:es)?|"
    r"ships?|releases?|scheduled|planned|starts?|begins?|on leave)\b|截止|之前|到期|直到|上线|冻结|期限",
    re.IGNORECASE,
)
_REASON = re.compile(r"(merged into|contradicted by|expired)\b[ :]*(\S*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a dream is held to."""

    root: Path
    today: date
    settings: DreamSettings = DREAM
    is_unbraked: bool = False
    """The person said yes to taking away more than a dream may by itself."""
    said: Sequence[str] | None = field(default=None, repr=False)
    """What people said in the sessions under review; none where no model wrote anything."""
    outside: Sequence[str] = field(default=(), repr=False)
    """What tools said in those sessions: a model finds it there, and nobody vouches for it."""
    has_index: bool = True
    before: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """The files as a model found them; empty where no model wrote anything."""
    dropped: Sequence[str] = ()
    """What the model said it took out, with a reason."""


def problems(copy: Copy, terms: Terms) -> list[str]:
    """Everything that speaks against keeping what was done; nothing: it may be kept."""
    if not copy.changed:
        return []
    found = [*_places(copy, terms.root), *_untouched(copy), *_removals(copy, terms), *_secrets(copy)]
    found += index_problems(copy) if terms.has_index else []
    found += _brake(copy, terms)
    if terms.said is not None:
        found += _inventions(copy, terms.said)
        found += _repetitions(copy, terms.said, terms.outside)
        found += _losses(copy, terms)
    # The dearest question comes last, and only where the rest is fine.
    return found or [str(one) for one in lost(copy, today=terms.today)[:MAX_TOLD]]


def _places(copy: Copy, root: Path) -> list[str]:
    found = []
    for file, data in copy.changed.items():
        if file not in copy.base and is_topic(file):
            try:
                topic_inside(root, file)
            except OutsideStore as error:
                found.append(str(error))
        if data is not None and len(data) > MAX_BYTES:
            found.append(f"{file} would be larger than a memory may be")
    return found


def _untouched(copy: Copy) -> list[str]:
    """What a dream keeps its hands off: pinned files, a person's words, days' logs; nobody gains trust."""
    found = []
    for file, data in copy.changed.items():
        if file in copy.pinned:
            found.append(f"{file} is pinned and was changed")
        elif file in copy.theirs and is_topic(file):
            found.append(f"{file} was last written by the person and may only be proposed to")
        elif is_log(file):
            found.append(f"{file} is a day's log and was changed")
        elif data is not None and file in copy.base and is_topic(file):
            before = Copy({file: copy.base[file]}).topic(file).entry
            after = copy.topic(file).entry
            if before.origin != after.origin or before.local_only != after.local_only:
                found.append(f"{file} says otherwise about who vouches for it or who may see it")
    return found


def _removals(copy: Copy, terms: Terms) -> list[str]:
    found = []
    reasons = {step.file: step for step in copy.steps if step.action == "removed"}
    for file, data in copy.changed.items():
        if data is None and is_topic(file) and (why := _objection(copy, file, reasons.get(file), terms)):
            found.append(f"{file} was removed {why}")
        elif data is not None and _is_emptied(copy, file):
            found.append(f"{file} was emptied instead of removed with a reason")
    return found


def _is_emptied(copy: Copy, file: str) -> bool:
    """Whether a memory that said something has no body any more."""
    if file not in copy.base or not is_topic(file) or not is_blank(copy.topic(file).entry.body):
        return False
    return not is_blank(Copy({file: copy.base[file]}).topic(file).entry.body)


def _objection(copy: Copy, file: str, step: Step | None, terms: Terms) -> str:
    said = _REASON.match(step.reason) if step else None
    if step is None or said is None:
        return "without a recorded reason"
    if said[1] == "expired":
        topic = Copy({file: copy.base[file]}).topic(file)
        return "" if _may_be_over(topic, terms.today) else "as expired, but no date it names has passed"
    if step.into not in copy.now and not _has_heir(copy, step.into):
        return f"in favour of {step.into or 'nothing'}, which is not there"
    return ""


def _may_be_over(topic: Topic, today: date) -> bool:
    """Whether a memory may be removed as expired: it is about an end, and no date it names lies ahead."""
    said = topic.document.fields.get("expires", "")
    if isinstance(said, str) and (named := days(said)):
        return named[-1] < today
    if topic.entry.kind != "project":
        return False
    text = f"{topic.entry.description}\n{topic.entry.body}"
    is_about_end = any(days(line) for line in text.splitlines() if _ENDING.search(line))
    return is_about_end and all(day < today for day in days(text))


def _has_heir(copy: Copy, file: str) -> bool:
    """Whether a successor was itself merged on into one that is there."""
    into = {step.file: step.into for step in copy.steps if step.action == "removed"}
    for _ in into:
        file = into.get(file, file)
    return file in copy.now


def _brake(copy: Copy, terms: Terms) -> list[str]:
    topics = [file for file in copy.base if is_topic(file)]
    gone = [file for file in topics if file not in copy.now or _is_emptied(copy, file)]
    allowed = may_remove(len(topics), terms.settings)
    if terms.is_unbraked or len(gone) <= allowed or (len(gone) == 1 and _is_kept(copy, gone[0])):
        return []
    return [
        f"{len(gone)} of {len(topics)} memories would go, more than {terms.settings.max_removed_share:.0%}; "
        "`nacre dream --yes` allows it"
    ]


def _is_kept(copy: Copy, file: str) -> bool:
    """Whether every sentence of a removed memory stands somewhere else."""
    mine = set(sentences(Copy({file: copy.base[file]}).topic(file).entry.body))
    into = next((one.into for one in copy.steps if one.file == file and one.action == "removed"), "")
    return into in copy.now and mine <= set(sentences(copy.topic(into).entry.body))


def _secrets(copy: Copy) -> list[str]:
    """Credentials that were not there before; what was there is `nacre memory lint`'s to tell."""
    changed = copy.changed
    before = sum(len(find_secrets(_text(copy.base.get(file)))) for file in changed)
    after = {file: find_secrets(_text(data)) for file, data in changed.items()}
    if sum(map(len, after.values())) <= before:
        return []
    return [f"{file}: {each}" for file, found in after.items() for each in found][:MAX_TOLD]


def _inventions(copy: Copy, said: Sequence[str]) -> list[str]:
    """Sentences a model wrote that claim what nobody said and no memory had (E9)."""
    known = [_text(data) for data in copy.base.values()]
    there = {sentence for text in known for sentence in sentences(text)}
    found = []
    for file, data in copy.changed.items():
        if data is None or not is_topic(file):
            continue
        entry = copy.topic(file).entry
        new = [
            one for one in _lines(f"{entry.description}\n{entry.body}") if not set(sentences(one)) <= there
        ]
        claims = ungrounded("\n".join(new), said=[*known, *said]) if new else []
        found += [f"{file} claims {claim!r}, which nobody said" for claim in claims[:MAX_TOLD]]
    return found


def _losses(copy: Copy, terms: Terms) -> list[str]:
    """Names, numbers, dates and paths that a model took out of memory without a reason.

    A memory that was removed as expired or as contradicted may take what it said along.
    """
    over = {
        step.file
        for step in copy.steps
        if step.action == "removed" and step.file not in copy.now and not step.reason.startswith("merged")
    }
    changed = [file for file, data in terms.before.items() if copy.now.get(file) != data and file not in over]
    if not changed:
        return []
    # An index repeats its memories: its lines do not stand for what one of them had.
    memories = [*terms.dropped, *(_words_of(copy, file) for file in copy.now if not is_index(file))]
    indexes = [_words_of(copy, file) for file in copy.now if is_index(file)]
    lost: list[str] = []
    before = Copy(terms.before)
    for names, now in (
        ([file for file in changed if not is_index(file)], memories),
        ([file for file in changed if is_index(file)], [*memories, *indexes]),
    ):
        old = {file: _told_by(before, file, without=over) for file in names}
        found = lost_claims("\n".join(old.values()), now=now) if old else []
        for one in (claim for claim in found if claim not in terms.before):
            file = next((file for file, text in old.items() if one in text), "memory")
            lost.append(f"{file} had {one!r}, which no memory has any more; {_PUT_BACK.format(one)}")
    return lost[:MAX_TOLD]


def _told_by(copy: Copy, file: str, *, without: Collection[str]) -> str:
    """What a file tells a reader; of an index, without the lines of some memories."""
    if not is_index(file):
        return _words_of(copy, file)
    folder = file.removesuffix(INDEX_FILE)
    lines = [line for line in Index.parse(copy.now[file]).lines if folder + line.file not in without]
    return "\n".join(f"{one.title} {one.hook}" if one.kind == "pointer" else one.raw for one in lines)


def _repetitions(copy: Copy, said: Sequence[str], outside: Sequence[str]) -> list[str]:
    """What a model wrote that repeats a page, a file or a command: no dream makes it a memory (M16b)."""
    trusted = [*said]
    doubted = [*outside]
    for file, data in copy.base.items():
        is_doubted = is_topic(file) and Copy({file: data}).topic(file).entry.origin == "untrusted"
        (doubted if is_doubted else trusted).append(_text(data))
    there = {line for data in copy.base.values() for line in _lines(_text(data))}
    found = []
    for file, now in copy.changed.items() if doubted else ():
        if now is None or (is_topic(file) and copy.topic(file).entry.origin == "untrusted"):
            continue
        new = "\n".join(line for line in _lines(_words_of(copy, file)) if line not in there)
        if new and origin_of(new, by_user=trusted, by_tools=doubted) == "untrusted":
            found.append(f"{file} repeats what came from outside and nobody vouches for; leave that out")
    return found


def _words_of(copy: Copy, file: str) -> str:
    """What a file tells a reader: fields such as dates repeat by themselves."""
    if not is_topic(file):
        return _text(copy.now[file])
    entry = copy.topic(file).entry
    return f"{entry.name}\n{entry.description}\n{entry.body}"


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _text(data: bytes | None) -> str:
    return (data or b"").decode(errors="replace")


FOUND_BEFORE = 3
"""A question counts if its memory was among so many answers: what was hard to find before proves nothing."""
FOUND_AFTER = 5
"""And it must be among so many now: as many as a message gets (R5), with room for a neighbour."""
MAX_HEADINGS = 5
MAX_SAMPLED = 200
"""Memories that lost no word they could be found by, but are asked for: another may stand before them now."""
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Lost:
    """A question that the new state does not answer any more."""

    file: str
    question: str

    def __str__(self) -> str:
        return f"{self.file} is no longer found by {self.question!r}"


def lost(copy: Copy, *, today: date) -> list[Lost]:
    """The questions, made from what was there, that found their memory and find it no more."""
    changed = copy.changed
    old = Copy(copy.base, written=copy.written)
    before = old.topics()
    touched = [topic for topic in before if topic.entry.file in changed]
    if not touched:
        return []
    heirs = successors(copy.steps)
    asked = _asked(before, copy, heirs)
    finder = Finder(before, asked=today)
    answered = [
        (topic.entry.file, question)
        for topic, question in asked
        if topic.entry.file in finder.found(question, limit=FOUND_BEFORE)
    ]
    for topic in touched:
        finder.forget(topic.entry.file)
    for file, data in changed.items():
        if data is not None and is_topic(file):
            finder.learn(copy.topic(file))
    return [
        Lost(file, question)
        for file, question in answered
        if (heir := _heir(file, copy, heirs)) and heir not in finder.found(question, limit=FOUND_AFTER)
    ]


def _asked(before: Sequence[Topic], copy: Copy, heirs: Mapping[str, str]) -> list[tuple[Topic, str]]:
    """Every question of which a word is no longer where it was, and of the others some."""
    at_risk: list[tuple[Topic, str]] = []
    safe: list[tuple[Topic, str]] = []
    for topic in before:
        heir = _heir(topic.entry.file, copy, heirs)
        is_same = copy.now.get(topic.entry.file) == copy.base[topic.entry.file]
        known = frozenset[str]() if is_same or not heir else frozenset(terms(copy.topic(heir).text))
        for question in questions(topic):
            is_kept = is_same or set(terms(question)) <= known
            (safe if is_kept else at_risk).append((topic, question))
    return at_risk + safe[:: max(1, len(safe) // MAX_SAMPLED)][:MAX_SAMPLED]


def questions(topic: Topic) -> Iterator[str]:
    """What somebody might ask to find this memory."""
    entry = topic.entry
    headings = [one_line(found) for found in _HEADING.findall(entry.body)][:MAX_HEADINGS]
    yield from dict.fromkeys(text for text in (entry.description, entry.title, *headings) if text.strip())


def successors(steps: list[Step]) -> dict[str, str]:
    """Where what removed files said stands now."""
    return {step.file: step.into for step in steps if step.action == "removed"}


def _heir(file: str, copy: Copy, heirs: Mapping[str, str]) -> str:
    """The file that should answer now; nothing for one that is over and has no successor."""
    seen: set[str] = set()
    while file not in copy.now and file not in seen:
        seen.add(file)
        file = heirs.get(file, "")
    return file
