"""Checks the changes of a dream as a whole: all of them are acceptable, or none is applied (D6, D7)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from nacre.errors import OutsideStore
from nacre.layers.l6_dream.by_rule_index import index_problems
from nacre.layers.l6_dream.by_rule_merge import is_contradicted, sentences
from nacre.layers.l6_dream.copy import (
    DirectoryCopy,
    DreamStep,
    Topic,
    TopicSearch,
    is_index,
    is_log,
    is_topic,
)
from nacre.layers.l6_dream.policy import DREAM, DreamSettings, may_remove
from nacre.memory.checks.faithful import Sources
from nacre.memory.checks.grounding import is_blank, lost_claims, ungrounded_claims
from nacre.memory.checks.origins import origin_of
from nacre.memory.checks.statements import Statements, lost_sentences
from nacre.memory.checks.support_sentence import split_sentences
from nacre.memory.dates.absolute import full_dates
from nacre.memory.files.containment import topic_inside
from nacre.memory.files.folder import MAX_BYTES
from nacre.memory.format.entry import one_line
from nacre.memory.format.index import INDEX_FILE, MemoryIndex
from nacre.memory.secrets import find_in_name, find_secrets
from nacre.memory.similarity import terms

MAX_HEADING_TERMS = 2
MIN_COMMON = 2
"""Words that a sentence and what contradicts it have in common."""
MIN_SUPPORT = 0.6
"""Share of the words of a reason that one sentence must have."""
MAX_TOLD = 5
"""Problems of one kind that are reported."""
_PUT_BACK = "put it back, or end your last reply with a line `DROPPED: {} because ...`"
_ENDING = re.compile(
    r"\b(?:until|till|through|ends?|ended|ending|expires?|expired|due|deadline|cut-?off|frozen|freeze)"
    r"(?:\s+(?:is|was|on|by|at|until|till|of|date|after|,|:))*\W{0,3}$|(?:截止|到期|直到|期限|冻结)\S{0,3}$",
    re.IGNORECASE,
)
"""Ends right before a date: the date is the end of what the sentence is about."""
_ENDING_AFTER = re.compile(r"\s*(?:之前|以前|前|截止|到期|为止)")
_REASON = re.compile(r"(merged into|contradicted by|expired)\b[ :]*(\S*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckContext:
    """What the changes of a dream are checked against."""

    root: Path
    today: date
    settings: DreamSettings = DREAM
    is_unlimited: bool = False
    """The person allows the removal of more than the usual share."""
    user_texts: Sequence[str] | None = field(default=None, repr=False)
    """The user's messages in the reviewed sessions; None if no model was used."""
    tool_texts: Sequence[str] = field(default=(), repr=False)
    """The untrusted output of tools in those sessions."""
    has_index: bool = True
    before: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """The files before the model changed them; empty if no model was used."""
    dropped: Mapping[str, str] = field(default_factory=dict)
    """What the model declared as removed, with its reasons."""


def problems(copy: DirectoryCopy, context: CheckContext) -> list[str]:
    """Return everything that is wrong with the changes; empty if they are acceptable."""
    return [one for several in problems_by_kind(copy, context).values() for one in several]


def problems_by_kind(copy: DirectoryCopy, context: CheckContext) -> dict[str, list[str]]:
    """Return the problems by the kind of check that found them."""
    if not copy.changed:
        return {}
    found = {
        "path": _paths(copy, context.root),
        "protected": _protected(copy),
        "removal": _removals(copy, context),
        "secret": _secrets(copy),
        "index": index_problems(copy) if context.has_index else [],
        "removal_limit": _removal_limit(copy, context),
    }
    if context.user_texts is not None:
        found["ungrounded"] = _inventions(copy, context)
        found["untrusted"] = _repetitions(copy, context)
        found["lossy"] = _losses(copy, context)
    found = {kind: several for kind, several in found.items() if several}
    # The most expensive check comes last, and only if the others found nothing.
    return found or {"recall": [str(one) for one in lost(copy, today=context.today)[:MAX_TOLD]]}


def _paths(copy: DirectoryCopy, root: Path) -> list[str]:
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


def _protected(copy: DirectoryCopy) -> list[str]:
    """Report changes to pinned files, a person's files, daily logs, and to origin or visibility."""
    found = []
    for file, data in copy.changed.items():
        if file in copy.pinned:
            found.append(f"{file} is pinned and was changed")
        elif file in copy.by_person and is_topic(file):
            found.append(f"{file} was last written by the person and may only be proposed to")
        elif is_log(file):
            found.append(f"{file} is a day's log and was changed")
        elif data is not None and file in copy.base and is_topic(file):
            before = DirectoryCopy({file: copy.base[file]}).topic(file).entry
            after = copy.topic(file).entry
            if before.origin != after.origin or before.local_only != after.local_only:
                found.append(f"{file} says otherwise about who vouches for it or who may see it")
    return found


def _removals(copy: DirectoryCopy, context: CheckContext) -> list[str]:
    """Report removals without a valid reason, and memories that were emptied instead."""
    found = []
    reasons = {step.file: step for step in copy.steps if step.action == "removed"}
    for file, data in copy.changed.items():
        if data is None and is_topic(file) and (why := _objection(copy, file, reasons.get(file), context)):
            found.append(f"{file} was removed {why}")
        elif data is not None and _is_emptied(copy, file):
            found.append(f"{file} was emptied instead of removed with a reason")
    return found


def _is_emptied(copy: DirectoryCopy, file: str) -> bool:
    """Whether a memory has lost its whole body."""
    if file not in copy.base or not is_topic(file) or not is_blank(copy.topic(file).entry.body):
        return False
    return not is_blank(DirectoryCopy({file: copy.base[file]}).topic(file).entry.body)


def _objection(copy: DirectoryCopy, file: str, step: DreamStep | None, context: CheckContext) -> str:
    reason = _REASON.match(step.reason) if step else None
    if step is None or reason is None:
        return "without a recorded reason"
    if reason[1] == "expired":
        topic = DirectoryCopy({file: copy.base[file]}).topic(file)
        return "" if _is_expired(topic, context.today) else "as expired, but no date it names has passed"
    if not _successor(step.into, copy, successors(copy.steps)):
        return f"in favour of {step.into or 'nothing'}, which is not there"
    return ""


def _is_expired(topic: Topic, today: date) -> bool:
    """Whether a memory may be removed as expired: it is about an end, and all its dates have passed."""
    expires = topic.document.fields.get("expires", "")
    if isinstance(expires, str) and (named := full_dates(expires)):
        return named[-1] < today
    if topic.entry.kind != "project":
        return False
    text = f"{topic.entry.description}\n{topic.entry.body}"
    return any(map(_states_end, split_sentences(text))) and all(day < today for day in full_dates(text))


def _states_end(sentence: str) -> bool:
    """Whether a sentence names a day on which the thing that it is about ends."""
    places = re.finditer(r"\d{4}-\d{2}-\d{2}|\d{4}年\d{1,2}月\d{1,2}日", sentence)
    return any(
        _ENDING.search(sentence[: one.start()]) or _ENDING_AFTER.match(sentence[one.end() :])
        for one in places
    )


def _removal_limit(copy: DirectoryCopy, context: CheckContext) -> list[str]:
    topics = [file for file in copy.base if is_topic(file)]
    gone = [file for file in topics if file not in copy.now or _is_emptied(copy, file)]
    allowed = may_remove(len(topics), context.settings)
    if context.is_unlimited or len(gone) <= allowed or (len(gone) == 1 and _is_contained(copy, gone[0])):
        return []
    return [
        f"{len(gone)} of {len(topics)} memories would go, "
        f"more than {context.settings.max_removed_share:.0%}; `nacre dream --yes` allows it"
    ]


def _is_contained(copy: DirectoryCopy, file: str) -> bool:
    """Whether the memory that replaces a removed one has every sentence of it."""
    mine = set(sentences(DirectoryCopy({file: copy.base[file]}).topic(file).entry.body))
    into = next((one.into for one in copy.steps if one.file == file and one.action == "removed"), "")
    return into in copy.now and mine <= set(sentences(copy.topic(into).entry.body))


def _secrets(copy: DirectoryCopy) -> list[str]:
    """Report credentials that were added; `nacre memory lint` reports the existing ones."""
    changed = copy.changed
    before = sum(len(find_secrets(_text(copy.base.get(file)))) for file in changed)
    after = {
        file: [*find_secrets(_text(data)), *(find_in_name(file) if data and file not in copy.base else ())]
        for file, data in changed.items()
    }
    if sum(map(len, after.values())) <= before:
        return []
    return [f"{file}: {each}" for file, found in after.items() for each in found][:MAX_TOLD]


def _inventions(copy: DirectoryCopy, context: CheckContext) -> list[str]:
    """Report claims of a model that are neither in the user's messages nor in a memory (E9).

    What rules wrote before the model began, such as a date in place of "tomorrow", is no claim of the model.
    """
    user_texts = context.user_texts or ()
    old_texts = [_text(data) for data in (*copy.base.values(), *context.before.values())]
    old_sentences = {sentence for text in old_texts for sentence in sentences(text)}
    old = (DirectoryCopy(copy.base), DirectoryCopy(context.before))
    sources = Sources(user_texts, old=[_text_of(one, file) for one in old for file in one.now])
    found = []
    for file, data in copy.changed.items():
        if data is None or not is_topic(file):
            continue
        entry = copy.topic(file).entry
        new = [
            one
            for one in _lines(f"{entry.description}\n{entry.body}")
            if not set(sentences(one)) <= old_sentences and not _is_plain_heading(one)
        ]
        if not new:
            continue
        claims = ungrounded_claims("\n".join(new), said=[*old_texts, *user_texts])
        if not claims:
            claims = sources.altered("\n".join(new), new_words="few")
        found += [f"{file} claims {claim!r}, which no source says" for claim in claims[:MAX_TOLD]]
    return found


def _is_plain_heading(line: str) -> bool:
    """Whether a line is a heading of one or two words that is no claim, such as "## Rules"."""
    return bool(_HEADING.match(line)) and len(terms(line)) <= MAX_HEADING_TERMS


def _losses(copy: DirectoryCopy, context: CheckContext) -> list[str]:
    """Report names, numbers, dates, paths and whole sentences that a model removed without a valid reason."""
    changed = [file for file, data in context.before.items() if copy.now.get(file) != data]
    if not changed:
        return []
    before = DirectoryCopy(context.before)
    reasons = [
        f"{what} {why}" for what, why in context.dropped.items() if _is_valid(what, why, copy, context)
    ]
    # An index repeats its memories: its lines do not count as a place where a lost fact still is.
    memories = [*reasons, *(_text_of(copy, file) for file in copy.now if not is_index(file))]
    indexes = [_text_of(copy, file) for file in copy.now if is_index(file)]
    said = Statements(memories)
    removed = {
        step.file: step for step in copy.steps if step.action == "removed" and step.file not in copy.now
    }
    lost: list[str] = []
    for file in changed:
        if is_index(file):
            old = _index_or_text(before, file, without=removed.keys())
            found = lost_claims(old, now=[*memories, *indexes])
        else:
            old = _left(before.topic(file), removed.get(file), copy) if is_topic(file) else ""
            found = lost_claims(old, now=memories) or lost_sentences(old, now=said)
        lost += [
            f"{file} had {one!r}, which no memory has any more; {_PUT_BACK.format(one)}"
            for one in found
            if one not in context.before
        ]
    return lost[:MAX_TOLD]


def _left(topic: Topic, step: DreamStep | None, copy: DirectoryCopy) -> str:
    """Return what must be kept of a memory: of an expired or contradicted one, what is not about that."""
    entry = topic.entry
    if step is None or step.reason.startswith("merged"):
        return f"{entry.name}\n{entry.description}\n{entry.body}"
    parts = split_sentences(entry.body)
    if step.reason.startswith("expired"):
        return "\n".join(one for one in parts if not full_dates(one))
    into = Statements([_text_of(copy, step.into)] if step.into in copy.now else [])
    return "\n".join(one for one in parts if not _is_answered(one, into))


def _is_answered(sentence: str, into: Statements) -> bool:
    """Whether a memory says something about the subject of a sentence: it has two of its words."""
    words = set(terms(sentence))
    return any(
        len(words & set(terms(one.text))) >= min(MIN_COMMON, len(words) or 1) for one in into.sentences
    )


def _is_valid(what: str, why: str, copy: DirectoryCopy, context: CheckContext) -> bool:
    """Whether a reason for a removed fact is the user's, or another memory's: nearly all of its words are."""
    before = DirectoryCopy(context.before)
    holders = {file for file in context.before if is_topic(file) and what in _text_of(before, file)}
    others = [_text_of(before, file) for file in context.before if file not in holders and not is_index(file)]
    texts = [*(context.user_texts or ()), *others]
    words = set(terms(why)) - set(terms(what))
    if ungrounded_claims(why, said=texts) or not words:
        return False
    return any(
        len(words & set(terms(one))) >= MIN_SUPPORT * len(words)
        for text in texts
        for one in split_sentences(text)
    )


def _index_or_text(copy: DirectoryCopy, file: str, *, without: Collection[str]) -> str:
    """Return the text of a file; of an index, without the lines of some memories."""
    if not is_index(file):
        return _text_of(copy, file)
    folder = file.removesuffix(INDEX_FILE)
    lines = [line for line in MemoryIndex.parse(copy.now[file]).lines if folder + line.file not in without]
    return "\n".join(f"{one.title} {one.hook}" if one.kind == "pointer" else one.raw for one in lines)


def _repetitions(copy: DirectoryCopy, context: CheckContext) -> list[str]:
    """Report files in which a model repeats untrusted tool output (M16b)."""
    trusted = [*(context.user_texts or ())]
    untrusted = [*context.tool_texts]
    for file, data in copy.base.items():
        is_untrusted = is_topic(file) and not DirectoryCopy({file: data}).topic(file).entry.is_trusted
        (untrusted if is_untrusted else trusted).append(_text(data))
    old = (*copy.base.values(), *context.before.values())
    old_lines = {line for data in old for line in _lines(_text(data))}
    found = []
    for file, now in copy.changed.items() if untrusted else ():
        if now is None or (is_topic(file) and not copy.topic(file).entry.is_trusted):
            continue
        new = "\n".join(line for line in _lines(_text_of(copy, file)) if line not in old_lines)
        if new and origin_of(new, by_user=trusted, by_tools=untrusted) == "untrusted":
            found.append(f"{file} repeats what came from outside and is not confirmed; leave it out")
    return found


def _text_of(copy: DirectoryCopy, file: str) -> str:
    """Return the text of a file without frontmatter fields such as dates, which repeat anyway."""
    if not is_topic(file):
        return _text(copy.now[file])
    entry = copy.topic(file).entry
    return f"{entry.name}\n{entry.description}\n{entry.body}"


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _text(data: bytes | None) -> str:
    return (data or b"").decode(errors="replace")


FOUND_BEFORE = 3
"""A question is used if its memory was among so many results before the dream."""
FOUND_AFTER = 5
"""Its memory must be among so many results afterwards: as many as a message gets (R5)."""
MAX_HEADINGS = 5
MAX_SENTENCES = 8
"""Sentences of the body of a changed memory that must still find it."""
MAX_SAMPLED = 200
"""Questions about unchanged memories that are asked too: another memory may now rank before them."""
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LostAnswer:
    """A question that no longer finds its memory."""

    file: str
    question: str

    def __str__(self) -> str:
        return f"{self.file} is no longer found by {self.question!r}"


def lost(copy: DirectoryCopy, *, today: date) -> list[LostAnswer]:
    """Return the questions that found their memory before the changes and no longer do.

    A memory that another one provably contradicts is not asked for: its answers would be wrong.
    """
    changed = copy.changed
    old = DirectoryCopy(copy.base, written=copy.written)
    before = old.topics()
    touched = [topic for topic in before if topic.entry.file in changed]
    if not touched:
        return []
    replaced_by = successors(copy.steps)
    outdated = _outdated(old, copy)
    asked = _asked([one for one in before if one.entry.file not in outdated], copy, replaced_by)
    search = TopicSearch(before, asked=today)
    answered = [
        (topic.entry.file, question)
        for topic, question in asked
        if topic.entry.file in search.files(question, limit=FOUND_BEFORE)
    ]
    for topic in touched:
        search.remove(topic.entry.file)
    for file, data in changed.items():
        if data is not None and is_topic(file):
            search.add(copy.topic(file))
    return [
        LostAnswer(file, question)
        for file, question in answered
        if (successor := _successor(file, copy, replaced_by))
        and not _is_found(question, successor, search.files(question, limit=FOUND_AFTER), copy)
    ]


def _outdated(old: DirectoryCopy, copy: DirectoryCopy) -> set[str]:
    """Return the removed memories whose sentences the named memory contradicts, or some memory repeats."""
    now = Statements(_text_of(copy, file) for file in copy.now if not is_index(file))
    found = set()
    for step in copy.steps:
        is_claimed = step.action == "removed" and step.reason.startswith("contradicted")
        if not is_claimed or step.file in copy.now or step.into not in copy.now or not is_topic(step.into):
            continue
        topic = old.topic(step.file)
        into = split_sentences(copy.topic(step.into).entry.body)
        parts = split_sentences(topic.entry.body)
        denied = [one for one in parts if any(is_contradicted(one, other) for other in into)]
        rest = "\n".join(one for one in parts if one not in denied)
        if denied and not lost_sentences(rest, now=now) and not _is_newer(topic, step.into, old):
            found.add(step.file)
    return found


def _is_newer(topic: Topic, other: str, old: DirectoryCopy) -> bool:
    """Whether a memory was written after another one, which then cannot say what holds now."""
    if other not in old.now:
        return False
    times = [one.entry.modified or one.entry.created for one in (topic, old.topic(other))]
    return times[0] is not None and times[1] is not None and times[0] > times[1]


def _is_found(question: str, successor: str, found: Sequence[str], copy: DirectoryCopy) -> bool:
    """Whether a question finds the memory, or another one that has all of its words now."""
    words = set(terms(question))
    return successor in found or any(words <= set(terms(copy.topic(file).text)) for file in found)


def _asked(
    before: Sequence[Topic], copy: DirectoryCopy, replaced_by: Mapping[str, str]
) -> list[tuple[Topic, str]]:
    """Return every question of which a word has moved or gone, and a sample of the others."""
    at_risk: list[tuple[Topic, str]] = []
    over = {
        step.file for step in copy.steps if not step.reason.startswith("merged") and step.action == "removed"
    }
    safe: list[tuple[Topic, str]] = []
    for topic in before:
        successor = _successor(topic.entry.file, copy, replaced_by)
        is_same = copy.now.get(topic.entry.file) == copy.base[topic.entry.file]
        words = frozenset[str]() if is_same or not successor else frozenset(terms(copy.topic(successor).text))
        asks_body = not is_same and topic.entry.file not in over
        for question in questions(topic, with_body=asks_body):
            is_safe = is_same or set(terms(question)) <= words
            (safe if is_safe else at_risk).append((topic, question))
    return at_risk + safe[:: max(1, len(safe) // MAX_SAMPLED)][:MAX_SAMPLED]


def questions(topic: Topic, *, with_body: bool = False) -> Iterator[str]:
    """Yield texts that should find this memory: description, title, headings, sentences of its body."""
    entry = topic.entry
    headings = [one_line(found) for found in _HEADING.findall(entry.body)][:MAX_HEADINGS]
    texts = [entry.description, entry.title, *headings]
    if with_body:
        texts += sorted(split_sentences(entry.body), key=lambda one: -len(set(terms(one))))[:MAX_SENTENCES]
    yield from dict.fromkeys(text for text in texts if text.strip())


def successors(steps: list[DreamStep]) -> dict[str, str]:
    """Return the file that replaces each removed file."""
    return {step.file: step.into for step in steps if step.action == "removed"}


def _successor(file: str, copy: DirectoryCopy, replaced_by: Mapping[str, str]) -> str:
    """Return the existing file that replaces this one, directly or not; empty if there is none."""
    seen: set[str] = set()
    while file not in copy.now and file not in seen:
        seen.add(file)
        file = replaced_by.get(file, "")
    return file if file in copy.now else ""
