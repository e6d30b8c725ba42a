"""Whether what was extracted from an evidence message holds what the answer rests on, by words alone.

Terms are recall's (stemmed, without empty words), number words as digits. `bearing` are the terms of the
answer that stand in the message. A message is found when one extracted text holds at least half of them.
Messages without any such term (the older value of a changed fact, an answer "yes") are counted apart: there
the question's terms stand for the answer's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bench.extract.chats import Chats, Evidence, Half
from nacre.layers.l5_extract.by_rule import stated_facts
from nacre.memory.recall.ranking.terms import content
from nacre.messages.blocks import JsonObject
from nacre.messages.facts import UserQuote

HALF = 0.5
NUMBERS = {
    "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
    "eight": "8", "nine": "9", "ten": "10", "twice": "2", "once": "1",
}  # fmt: skip


def recalled(chats: Chats, half: Half) -> JsonObject:
    """Shares of the evidence messages of one half."""
    bearing: Counter[str] = Counter()
    hit: Counter[str] = Counter()
    asked = asked_hit = yields = 0
    rows = [one for one in chats.evidence if one.half == half]
    for one in rows:
        answers, is_found, any_text = judge(chats, one)
        yields += any_text
        if answers:
            bearing[one.kind] += 1
            hit[one.kind] += is_found
        else:
            asked += 1
            asked_hit += is_found
    total = sum(bearing.values())
    return {
        "messages": len(rows),
        "bearing": total,
        "recall": _share(sum(hit.values()), total),
        "recall_of_all": _share(sum(hit.values()), len(rows)),
        "recall_with_question_terms": _share(sum(hit.values()) + asked_hit, len(rows)),
        "with_any_output": _share(yields, len(rows)),
        "by_kind": {kind: _share(hit[kind], bearing[kind]) for kind in sorted(bearing)},
    }


def judge(chats: Chats, one: Evidence) -> tuple[bool, bool, bool]:
    """Whether the message bears answer terms, whether they were extracted, and whether anything was."""
    text = chats.sessions[one.session][one.turn][1]
    said = UserQuote(f"{one.session}:{one.turn}", chats.dates[one.session], text)
    texts = [fact.text for fact in stated_facts([said], zone=said.at.tzinfo)] if said.at.tzinfo else []
    here = terms(text)
    answers = terms(one.answer) & here
    wanted = answers or terms(one.question) & here
    return bool(answers), is_held(wanted, texts), bool(texts)


def is_held(wanted: set[str], texts: Sequence[str]) -> bool:
    return bool(wanted) and any(len(wanted & terms(text)) >= HALF * len(wanted) for text in texts)


def terms(text: str) -> set[str]:
    return {NUMBERS.get(term, term) for term in content(text)}


def _share(part: int, whole: int) -> float:
    return round(part / whole, 3) if whole else 0.0
