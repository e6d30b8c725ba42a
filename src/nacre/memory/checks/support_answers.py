"""What a person says with a short answer to a question of an agent (M16b)."""

from __future__ import annotations

import re

from nacre.memory.checks.casual_text import expanded
from nacre.memory.checks.support_sentence import ANY_NEGATION, QUESTION, Sentence, split_sentences

_AGREES = re.compile(
    r"(?:yes|yep|yeah|yup|ok|okay|sure|right|correct|exactly|agreed|perfect|great|good|fine|please"
    r"|do (?:it|that|so)|go (?:ahead|for it)|sounds good|that works"
    r"|(?:remember|save|keep|note) (?:it|that|this)"
    r"|ja|genau|gerne?|bitte|oui|d'accord|sí|si|thanks|thank you)(?![^\W\d_])"
    r"|好的?|可以|行|对|是的|没问题|就这样|同意|记住|请|谢谢|吧|はい|お願いします|네",
    re.IGNORECASE,
)
"""What an answer that only agrees consists of."""
_TO_MEMORY = re.compile(
    r"\b(?:remember|memori[sz]e|save|store|note|keep|merken?|speicher\w*|retenir|recordar|guardar)\b"
    r"|记住|记下|保存|覚え",
    re.IGNORECASE,
)
_REFERS_BACK = re.compile(
    r"\b(?:that|this|it|das|dies|cela|eso|esto)\b\W*$"
    r"|\b(?:remember|save|note|store) (?:that|this|it)\b(?! \w+ (?:is|are|uses?))"
    r"|这|那|それ",
    re.IGNORECASE,
)
_LEAD_IN = re.compile(
    r"^\W*(?:(?:ok|so|and|also)\W+)?(?:(?:should|shall|may|can|do|would|will) (?:i|we|you)"
    r"(?: (?:want|like|prefer)(?: me)?(?: to)?)?|do you (?:want|prefer|like)(?: me)?(?: to)?)\b",
    re.IGNORECASE,
)
_ASKS_FOR = re.compile(
    r"^\W*(?:(?:and|so|for)\W+)?(?:which|what|where|who|when|how (?:many|much|long|often))\b", re.I
)
_REFUSES = re.compile(
    r"\W*(?:no|nope|nah|never|please don't|don't|nein|non)(?:[\W]+(?:thanks|please|never))*\W*"
)
MAX_ANSWER_WORDS = 6
"""A longer answer is a statement of its own."""
MAX_QUESTION_WORDS = 14


def agreed_text(reply: str, answer: str) -> str:
    """Return what an agent asked last if the person's answer only agrees to it, else nothing.

    A person who says "yes" agrees to the question, not to the sentences before it. Where the agent asks
    whether to remember something, its proposal begins with the sentence that says so.
    """
    if not _AGREES.match(answer.strip()) or re.search(r"\w", _AGREES.sub(" ", answer)):
        return ""
    *before, question = split_sentences(reply.strip()) or [""]
    if not QUESTION.search(question):
        return ""
    proposed = [question]
    if before and (_TO_MEMORY.search(before[-1]) or _is_about_last(question)):
        proposed.insert(0, before[-1])
    return " ".join(proposed).rstrip("?？ ")


def _is_about_last(question: str) -> bool:
    return bool(_TO_MEMORY.search(question) and _REFERS_BACK.search(question.rstrip("?？ ")))


def answered_text(reply: str, answer: str) -> str:
    """Return what a short answer says together with the question before it; empty if that is unclear.

    "Tabs or spaces for Python?" and "tabs" say "tabs for Python". Values in the question still need to be
    typed by the person.
    """
    *_, question = split_sentences(reply.strip()) or [""]
    asked = re.split(r"[,;:—]\s", question.rstrip("?？ "))[-1]
    said = answer.strip(" .!\n")
    if not QUESTION.search(question) or QUESTION.search(answer) or len(asked.split()) > MAX_QUESTION_WORDS:
        return ""
    if _REFUSES.fullmatch(answer.lower()):
        is_plain = _LEAD_IN.match(asked) and not ANY_NEGATION.search(asked) and " or " not in asked
        return f"Do not {_LEAD_IN.sub('', asked)}" if is_plain else ""
    content = set(Sentence.of(expanded(said)).content)
    if not content or len(said.split()) > MAX_ANSWER_WORDS or _AGREES.fullmatch(said):
        return ""
    if found := re.search(r"^(.*?)(\S+(?: \S+)*?) or (.+?)((?: (?:for|in|on|at|to|when|by) .*)?)$", asked):
        before, _, last, rest = found.groups()
        size = len(last.split())
        words = f"{before}{found[2]}".split()
        options = Sentence.of(expanded(f"{' '.join(words[-size:])} {last}"))
        if all(options.has(word) for word in content):
            return f"{_LEAD_IN.sub('', ' '.join(words[:-size]))} {said}{rest}"
        return ""
    return f"{_ASKS_FOR.sub('', asked)} {said}" if _ASKS_FOR.match(asked) else ""
