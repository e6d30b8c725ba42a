"""Precision by hand: outputs of ordinary sessions, chosen by a fixed rule, read as they would be in memory.

Four samples were judged, each once and each without anything of those before; between them the rules were
changed by what the one before had shown, so that only the last one speaks for them. `judged.jsonl` holds our
labels: which session and message, a digest of the extracted text, ok or not, and why. The texts stay where
they are. What the rules no longer give is counted as gone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from bench.extract.chats import Chats, Half
from nacre.layers.l5_extract.by_rule import StatedFact, stated_facts
from nacre.messages.blocks import JsonObject
from nacre.messages.facts import UserQuote

FILE = Path(__file__).parent / "judged.jsonl"
SEED = "nacre-extract-4"
SIZE = 300
PEOPLE_SIZE = 60
"""Of a second sample: real people's prompts alone, which are few among all outputs."""
PEOPLE = ("sharegpt_", "ultrachat_")
"""Sessions that were not written for this data set."""


@dataclass(frozen=True)
class Output:
    """One extracted fact and where it came from."""

    session: str
    turn: int
    fact: StatedFact

    @property
    def digest(self) -> str:
        return sha256(self.fact.text.encode()).hexdigest()[:12]

    @property
    def key(self) -> tuple[str, int, str]:
        return self.session, self.turn, self.digest

    @property
    def rank(self) -> str:
        """A place in an order that nobody chose."""
        return sha256(f"{SEED}:{self.session}:{self.turn}:{self.digest}".encode()).hexdigest()


@dataclass(frozen=True)
class Label:
    """What the judge said of one output."""

    sample: str
    session: str
    turn: int
    digest: str
    ok: bool
    reason: str


def outputs(chats: Chats, half: Half = "judge") -> Iterator[Output]:
    """All that is extracted from the ordinary sessions of a half."""
    for session in chats.ordinary[half]:
        at = chats.dates[session]
        for turn, (role, text) in enumerate(chats.sessions[session]):
            if role == "user" and at.tzinfo:
                for fact in stated_facts([UserQuote(f"{session}:{turn}", at, text)], zone=at.tzinfo):
                    if not fact.is_weak:
                        yield Output(session, turn, fact)


def samples(every: list[Output], known: list[Label]) -> dict[str, list[Output]]:
    """Those to be judged: from all outputs, and from people's own prompts; nothing that has a label."""
    done = {(one.session, one.turn, one.digest) for one in known}
    ranked = sorted((one for one in every if one.key not in done), key=lambda one: one.rank)
    people = [one for one in ranked if one.session.startswith(PEOPLE)]
    return {"fourth": ranked[:SIZE], "fourth people": people[:PEOPLE_SIZE]}


def labels(file: Path = FILE) -> list[Label]:
    return [Label(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


def precision(every: list[Output], told: list[Label]) -> JsonObject:
    """Shares of good ones, with the false ones by class, for each sample."""
    given = {one.key for one in every}
    rows: JsonObject = {"outputs": len(every)}
    for name in sorted({one.sample for one in told}):
        mine = [one for one in told if one.sample == name]
        live = [one for one in mine if (one.session, one.turn, one.digest) in given]
        wrong = Counter(one.reason for one in mine if not one.ok)
        rows[name] = {
            "judged": len(mine),
            "gone": len(mine) - len(live),
            "as_judged": round(sum(one.ok for one in mine) / len(mine), 3),
            "precision": round(sum(one.ok for one in live) / len(live), 3) if live else 0.0,
            "wrong": dict(wrong.most_common()),
        }
    return rows
