"""Quotations of a person in summaries: how many the person ever said, and whether ours are caught (C20).

Recorded sessions hold the summaries another program really wrote. Each quotation they put into the person's
mouth is looked up in what was typed before. Beside that, a made set: real words of each session, and words of
other sessions as inventions, brought in by the same frames and handed to the check.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.machine import bar
from nacre.layers.l4_compact.quotes import checked, is_said
from nacre.layers.l4_compact.summarise import USER_MESSAGES, SummarySection, parse
from nacre.messages.blocks import JsonObject, Text, ToolResult
from nacre.messages.foreign import read_foreign
from nacre.messages.records import Compacted, Record, Said

FOLDER = Path(__file__).parents[3] / "shared" / "data" / "claude_code_sessions" / "sessions"
"""Beside the repository, never in it."""
NEARLY = 0.8
"""Of the word triples of a quotation: so many in one message mean that it was altered, not invented."""
SLICE_WORDS = (3, 30)
PER_SESSION = 40
"""Quotations of each kind in the made set."""
FRAMES = (
    'The user said "{}".',
    '- **User feedback**: "{}"',
    "The user wants “{}”, so I did that.",
    "User: {}",
    '"{}" (user)',
    "The user asked for this:\n\n> {}",
    'User messages:\n- "{}"',
    'I was asked to "{}".',
    'They said: "{}"',
    "用户说：“{}”",
    '4. **User rejected the commit**: said "{}" and stopped the run.',
    'The last request was: "{}"',
    '| User | "{}" |',
    "The user replied: {}",
    'The user got impatient, "{}".',
)
_TYPED = re.compile(
    r"the user said:\s*(.+)|user has answered your questions?:(.+)", re.IGNORECASE | re.DOTALL
)
"""What a person types while refusing a call, or as an answer, stands in the result of that call."""
_BRACKETS = re.compile(r"\[[^\]]{3,}\]|\([^)]{3,}\)")

HEAD = """# Quotations that nobody said

Recorded sessions in which another program wrote summaries by a model, {summaries} of them. Every quotation
that a summary says is the person's was looked up in what the person had typed until then, refusals of calls
and answers to questions included; white space, the form of quotation marks, ellipses and a stop at the end
are forgiven. `altered`: at least {nearly:.0%} of its word triples stand in one message. `with a remark`: it
holds words in brackets that describe what was left out. `elsewhere`: the rest; some of it may have been
typed while a turn ran, which a recording need not hold.
"""


@dataclass(frozen=True, slots=True)
class Sizes:
    is_made_up: bool = False
    """Without recorded sessions: only to show that it runs."""


FULL = Sizes()
TINY = Sizes(is_made_up=True)


@dataclass(slots=True)
class Found:
    """What became of quotations."""

    said: int = 0
    altered: int = 0
    remarked: int = 0
    elsewhere: int = 0

    @property
    def total(self) -> int:
        return self.said + self.altered + self.remarked + self.elsewhere

    def row(self, name: str) -> JsonObject:
        return {
            "where": name,
            "quotations": self.total,
            "in_the_log": self.said,
            "not_in_the_log": self.total - self.said,
            "altered": self.altered,
            "with_a_remark": self.remarked,
            "elsewhere": self.elsewhere,
        }


@dataclass(slots=True)
class Recorded:
    """One session: the person's words, and each summary with the words known when it was written."""

    words: list[str] = field(default_factory=list)
    summaries: list[tuple[str, list[str]]] = field(default_factory=list)


def measure(sizes: Sizes = FULL, *, folder: Path = FOLDER) -> JsonObject:
    files = [] if sizes.is_made_up else sorted(folder.glob("*.jsonl.gz"))
    sessions = _made_up() if sizes.is_made_up else [_recorded(path) for path in files]
    if not sessions:
        return {"skipped": "there is no folder of real sessions beside the repository"}
    listed, others = Found(), Found()
    count = 0
    for session in sessions:
        for text, words in session.summaries:
            count += 1
            for section in parse(_without_draft(text)).sections:
                _look_up(section, words, listed if section.number == USER_MESSAGES else others)
    made = _made_set(sessions)
    return {
        "sessions": len(sessions),
        "summaries": count,
        "rows": [listed.row("all user messages"), others.row("all other sections")],
        "made_set": made,
        "bars": [
            bar("invented quotations kept, of the made set", _count(made, "false_keeps"), at_most=0),
            bar("real quotations dropped, of the made set", _count(made, "false_drops"), at_most=0),
        ],
    }


def pages(figures: JsonObject) -> dict[str, str]:
    """The figures as a page."""
    rows = figures["rows"]
    made = figures["made_set"]
    assert isinstance(rows, list) and isinstance(made, dict)
    lines = [
        HEAD.format(summaries=figures["summaries"], nearly=NEARLY),
        "| section | quotations | in the log | not in the log | altered | with a remark | elsewhere |",
        "|---|---|---|---|---|---|---|",
        *(f"| {' | '.join(str(value) for value in row.values())} |" for row in rows if isinstance(row, dict)),
        "",
        "The check itself, on a made set: words of the same sessions, and of other sessions as inventions,",
        f"in {len(FRAMES)} frames. Of {made['inventions']:,} invented quotations {made['false_keeps']} were",
        f"kept, of {made['real']:,} real ones {made['false_drops']} were dropped.",
        "",
        "The rules of the check were written with these frames and sessions in view: another way of quoting",
        "may still pass.",
    ]
    return {"compaction.inventions.md": "\n".join(lines) + "\n"}


def _made_up() -> list[Recorded]:
    first = ["Please leave the parser alone and write tests for the ledger first."]
    second = ["Rename the column in the report to total and keep the old one."]
    summary = (
        "1. Primary request and intent:\nTests.\n4. Errors and fixes:\n"
        '- The user said "leave the parser alone".\n- The user said "ship it today".\n'
        '6. All user messages:\n- "Please leave the parser alone and write tests..."'
    )
    return [Recorded(first, [(summary, first)]), Recorded(second)]


def _recorded(path: Path) -> Recorded:
    session = Recorded()
    for record in _records(path):
        match record:
            case Compacted(summary=blocks):
                text = "\n".join(block.text for block in blocks if isinstance(block, Text))
                session.summaries.append((text, list(session.words)))
            case Said(role="user", aside=None):
                session.words += _typed(record)
            case _:
                pass
    return session


def _records(path: Path) -> Iterator[Record]:
    for one in read_foreign(gzip.decompress(path.read_bytes()), name=path.name):
        yield from one.records


def _typed(said: Said) -> Iterator[str]:
    for block in said.blocks:
        if isinstance(block, Text) and not said.meta:
            yield block.text
        elif isinstance(block, ToolResult) and (typed := _TYPED.search(block.text)):
            yield typed[1] or typed[2]


def _without_draft(text: str) -> str:
    """These summaries hold their draft as plain text ahead of them."""
    return text.split("\nSummary:\n", 1)[-1]


def _look_up(section: SummarySection, words: Sequence[str], found: Found) -> None:
    head = "The user's messages:\n" if section.number == USER_MESSAGES else ""
    done = checked(head + section.body, words)
    found.said += done.kept
    for quotation in done.dropped:
        if _nearness(quotation, words) >= NEARLY:
            found.altered += 1
        elif _BRACKETS.search(quotation):
            found.remarked += 1
        else:
            found.elsewhere += 1


def _nearness(quotation: str, words: Sequence[str]) -> float:
    triples = _triples(quotation)
    return (
        max((len(triples & _triples(one)) / len(triples) for one in words), default=0.0) if triples else 0.0
    )


def _triples(text: str) -> set[tuple[str, ...]]:
    tokens = re.findall(r"\w+", text.lower())
    return {tuple(tokens[i : i + 3]) for i in range(max(1, len(tokens) - 2))} if tokens else set()


def _made_set(sessions: Sequence[Recorded]) -> JsonObject:
    real = invented = false_drops = false_keeps = 0
    for place, session in enumerate(sessions):
        strangers = sessions[(place + 1) % len(sessions)].words
        for number, quotation in enumerate(_slices(session.words)):
            text = FRAMES[number % len(FRAMES)].format(quotation)
            real += 1
            false_drops += checked(text, session.words).text != text
        for number, quotation in enumerate(_slices(strangers)):
            if is_said(quotation, session.words):
                continue
            invented += 1
            done = checked("Before.\n\n" + FRAMES[number % len(FRAMES)].format(quotation), session.words)
            false_keeps += quotation in done.text
    return {"real": real, "false_drops": false_drops, "inventions": invented, "false_keeps": false_keeps}


def _slices(words: Sequence[str]) -> Iterator[str]:
    """Stretches of what was typed, without quotation marks of their own, spread over the messages."""
    made = 0
    for number, message in enumerate(words):
        for line in message.splitlines():
            tokens = line.split()
            size = SLICE_WORDS[0] + number * 7 % (SLICE_WORDS[1] - SLICE_WORDS[0])
            start = number * 3 % max(1, len(tokens) - size + 1)
            quotation = " ".join(tokens[start : start + size])
            if len(tokens) < SLICE_WORDS[0] or re.search(r"[\"“”>#*|<]|(?:^|\s)['`‘]", quotation):
                continue
            yield quotation
            made += 1
            if made == PER_SESSION:
                return


def _count(figures: JsonObject, name: str) -> int:
    value = figures[name]
    assert isinstance(value, int)
    return value
