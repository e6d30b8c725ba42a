"""Labelled chats, and the score of what was kept of them.

A fact is kept when one memory has all its required words and none of its forbidden ones in its first 400
characters; a memory counts for two facts at most. A memory is noise when it has no half of any fact's
words, or when most of its words come from a message that is labelled as noise and from none with a fact.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from bench.public.adapter import Turn
from nacre.messages.blocks import JsonObject

LIMIT = 400
FACTS_PER_MEMORY = 2
_WORD = re.compile(r"[a-z0-9']{3,}|[\u4e00-\u9fff]{2}")


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat with its labels."""

    id: str
    turns: tuple[Turn, ...]
    labels: dict[str, Any]


def chats(folder: Path) -> list[Chat]:
    """Return the chats, by name; a message is a minute after the one before."""
    found = []
    for path in sorted(folder.glob("c*.json")):
        raw = json.loads(path.read_text(encoding="utf-8"))
        begin = datetime.fromisoformat(f"{raw['date']}T10:00:00+00:00")
        turns = tuple(
            Turn(one["role"], one["text"], begin + timedelta(minutes=at))
            for at, one in enumerate(raw["messages"])
        )
        found.append(Chat(raw["id"], turns, raw))
    return found


def score(found: Sequence[tuple[Chat, list[tuple[str, str]]]], folder: Path) -> JsonObject:
    """Return the figures; the memories of each chat are pairs of kind and text."""
    secrets = json.loads((folder / "secret_values.json").read_text(encoding="utf-8"))
    facts = kept = typed = noise = saved = stale = leaked = 0
    for chat, memories in found:
        texts = [text.strip()[:LIMIT] for _, text in memories]
        left = [FACTS_PER_MEMORY] * len(memories)
        for fact in chat.labels["keep"]:
            facts += 1
            hit = next((at for at, text in enumerate(texts) if left[at] and has(text, fact)), None)
            if hit is not None:
                left[hit] -= 1
                kept += 1
                typed += memories[hit][0] == fact["type"]
            elif fact.get("replaces"):
                old = _words(str(fact["replaces"])) - _words(fact["fact"])
                stale += bool(old) and any(old <= _words(text) for text in texts)
        noise += sum(is_noise(text, chat.labels) for text in texts)
        saved += len(memories)
        for value in secrets.get(chat.id, ()):
            leaked += any(value.casefold() in text.casefold() for _, text in memories)
    return {
        "facts": facts,
        "kept": kept,
        "right_type": typed,
        "saved": saved,
        "noise": noise,
        "old_values": stale,
        "secrets": leaked,
    }


def has(text: str, fact: dict[str, Any], *, part: float = 1.0) -> bool:
    """Return whether a text has a fact's required words, or a part of them, and no forbidden one."""
    low, words = text.casefold(), fact["must_contain"]
    if sum(word.casefold() in low for word in words) < max(1, round(part * len(words))):
        return False
    return part < 1 or not any(word.casefold() in low for word in fact.get("must_not_contain", ()))


def is_noise(text: str, labels: dict[str, Any]) -> bool:
    if not any(has(text, fact, part=0.5) for fact in labels["keep"]):
        return True
    words = _words(text)

    def share(at: int) -> float:
        return len(words & _words(labels["messages"][at]["text"])) / max(1, len(words))

    facts = {at for fact in labels["keep"] for at in fact["from"]}
    noise = {at for label in labels["noise"] for at in label["from"]} - facts
    return max(map(share, noise), default=0) > max(map(share, facts), default=0)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))
