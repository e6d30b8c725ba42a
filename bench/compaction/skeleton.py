"""What facts alone keep of what recorded sessions needed later: a person's words, actions and a tail (C17b).

`python -m bench.compaction.skeleton` writes `results/compaction_skeleton.json` and `.md`. A session is cut in
the middle, or where it was really compacted; a pair of identifiers counts as needed when a reply behind the
cut used it, it had been said before the cut, and nobody had said it again in between. Lines and budgets were
chosen on one half of the sessions, by a hash of their names; the other half was only looked at afterwards.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from statistics import median

from bench.machine import RESULTS, bar, bars, keep
from nacre.devtools.replay.recorded import read_recorded
from nacre.devtools.replay.run import Pair, facts_of
from nacre.inspect.sources import files_in, open_source
from nacre.messages.blocks import Json, JsonObject, Text
from nacre.messages.digest import show_actions, show_words
from nacre.messages.facts import Facts
from nacre.messages.foreign import read_foreign
from nacre.messages.pairing import Item
from nacre.messages.records import Compacted, Said
from nacre.messages.rounds import tail_from
from nacre.messages.tokens import estimate_blocks, estimate_text
from nacre.messages.view import View
from nacre.messages.wire import render_block

NAME = "compaction_skeleton"
DATA = Path(__file__).parents[3] / "shared" / "data" / "claude_code_sessions" / "sessions"
MIN_TOKENS = 60_000
"""Shorter sessions are nowhere near a compaction."""
TAIL_TOKENS = 20_000
BUDGETS = (4_000, 8_000, 12_000, 16_000)
"""For words and actions together."""
SHARES = (0.25, 0.33, 0.5)
"""Of it for words at most; actions get what words leave."""
SHARE = 0.5
MIN_RECORDS = 10
"""A stretch with fewer holds nothing to be forgotten."""
TIMED_TOKENS = 170_000
"""Where a window of 200,000 tokens is compacted."""
TIMED_ROUNDS = 9
LIMIT_MS = 100.0
SYNTHETIC = "<synthetic>"
"""The model of replies that no model wrote."""


@dataclass(frozen=True, slots=True)
class Case:
    """A session up to a cut, and what of it was needed afterwards."""

    half: str
    before: Sequence[Said | Compacted]
    pairs: frozenset[Pair]
    identifiers: frozenset[str]
    summary: str = ""
    """What really stood for it, where it was compacted."""


@dataclass(slots=True)
class Score:
    """How much of what was needed was there, over many cases."""

    pairs: int = 0
    pairs_kept: int = 0
    identifiers: int = 0
    identifiers_kept: int = 0
    tokens: list[int] = field(default_factory=list)

    def figures(self) -> JsonObject:
        return {
            "pairs": round(100 * self.pairs_kept / max(1, self.pairs), 1),
            "identifiers": round(100 * self.identifiers_kept / max(1, self.identifiers), 1),
            "tokens": round(sum(self.tokens) / max(1, len(self.tokens))),
        }


def main() -> int:
    figures = measure()
    if "skipped" in figures:
        print(NAME, figures["skipped"])
        return 0
    (RESULTS / f"{NAME}.md").write_text(page(keep(NAME, figures)), encoding="utf-8")
    for one in bars(figures):
        print("met" if one["met"] else "MISSED", one["what"], one["measured"])
    return 0 if all(one["met"] for one in bars(figures)) else 1


def measure() -> JsonObject:
    if not DATA.is_dir():
        return {"skipped": "there are no recorded sessions beside the repository"}
    middle, compacted = list(_middles()), list(_boundaries())
    seconds = _seconds()
    return {
        "middle": {half: _table(one for one in middle if one.half == half) for half in ("tune", "report")},
        "boundaries": {
            half: _table(one for one in compacted if one.half == half) for half in ("tune", "report")
        },
        "facts_and_skeleton_ms": round(seconds * 1000, 1),
        "bars": [bar("facts and skeleton of 170,000 tokens, ms", round(seconds * 1000, 1), at_most=LIMIT_MS)],
    }


def _table(cases: Iterable[Case]) -> JsonObject:
    scores: dict[str, Score] = {}
    count = pairs = size = 0
    for case in cases:
        view = View.of(case.before)
        count, pairs, size = count + 1, pairs + len(case.pairs), size + view.estimate
        for name, texts, tail in _ways(case, view):
            _add(scores.setdefault(name, Score()), case, texts, tail)
    return {
        "cases": count,
        "pairs_needed": pairs,
        "tokens_before_the_cut": round(size / max(1, count)),
        "kept": {name: score.figures() for name, score in scores.items()},
    }


def _ways(case: Case, view: View) -> Iterator[tuple[str, Sequence[str], Sequence[Item]]]:
    """Texts and kept items that may stand for what was before the cut."""
    tail = view.items[tail_from(view.items, TAIL_TOKENS) :]
    everything = Facts.of(case.before)
    hidden = everything.without(tail)
    yield "tail", (), tail
    for budget in BUDGETS:
        for share in SHARES:
            yield f"{budget:,}, words {share:.0%}, with tail", _skeleton(hidden, budget, share), tail
    if case.summary:
        same = estimate_text(case.summary)
        yield "the recorded summary", (case.summary,), ()
        yield "skeleton as long as it", _skeleton(everything, same, SHARE), ()
        yield "the recorded summary, with tail", (case.summary,), tail
        yield "skeleton as long as it, with tail", _skeleton(hidden, same, SHARE), tail
        both = (case.summary, *_skeleton(hidden, BUDGETS[-1], SHARE))
        yield f"both, {BUDGETS[-1]:,}, with tail", both, tail


def _skeleton(facts: Facts, tokens: int, share: float) -> tuple[str, str]:
    words = show_words(facts, round(tokens * share)).text
    return words, show_actions(facts, tokens - estimate_text(words)).text


def _add(score: Score, case: Case, texts: Sequence[str], tail: Sequence[Item]) -> None:
    shown = [facts_of({"type": "text", "text": text}) for text in texts]
    shown += [facts_of(part.wire) for item in tail for part in item.parts]
    pairs = frozenset[Pair]().union(*(one.pairs for one in shown))
    identifiers = frozenset[str]().union(*(one.identifiers for one in shown))
    score.pairs += len(case.pairs)
    score.pairs_kept += len(case.pairs & pairs)
    score.identifiers += len(case.identifiers)
    score.identifiers_kept += len(case.identifiers & identifiers)
    score.tokens.append(sum(map(estimate_text, texts)) + sum(item.tokens for item in tail))


def _middles() -> Iterator[Case]:
    for path in files_in(DATA):
        for session in read_recorded(path):
            if session.peak_tokens < MIN_TOKENS:
                continue
            records = [said for step in session.steps for said in (*step.heard, step.reply)]
            sizes = list(accumulate(estimate_blocks(said.blocks) for said in records))
            place = next(i for i, size in enumerate(sizes) if size * 2 >= sizes[-1])
            # A reply and its results stay together.
            while place < len(records) and records[place].role != "assistant":
                place += 1
            yield _case(path, records[:place], records[place:])


def _boundaries() -> Iterator[Case]:
    for path in files_in(DATA):
        with open_source(path) as source:
            sessions = read_foreign(source.lines, name=path.name.removesuffix(".gz"))
        for session in sessions:
            records = [
                one
                for one in session.records
                if isinstance(one, Compacted) or (isinstance(one, Said) and _reached(one))
            ]
            places = [place for place, one in enumerate(records) if isinstance(one, Compacted)]
            for start, place in zip([0, *places], places, strict=False):
                before, boundary = records[start:place], records[place]
                after = [one for one in records[place + 1 :] if isinstance(one, Said)]
                assert isinstance(boundary, Compacted)
                summary = "\n".join(block.text for block in boundary.summary if isinstance(block, Text))
                if len(before) >= MIN_RECORDS and after:
                    yield _case(path, before, after, summary=summary)


def _reached(said: Said) -> bool:
    """Whether it was said to the model, or by it."""
    return said.aside is None and not (said.reply and said.reply.model == SYNTHETIC)


def _case(
    path: Path, before: Sequence[Said | Compacted], after: Sequence[Said], *, summary: str = ""
) -> Case:
    said_pairs, said_names = set[Pair](), set[str]()
    for record in before:
        for block in record.blocks if isinstance(record, Said) else record.summary:
            facts = facts_of(render_block(block))
            said_pairs |= facts.pairs
            said_names |= facts.identifiers
    pairs, names = set[Pair](), set[str]()
    for said in after:
        for block in said.blocks:
            facts = facts_of(render_block(block))
            if said.role == "assistant":
                pairs |= facts.pairs & said_pairs
                names |= facts.identifiers & said_names
            # Once it was said again, nothing from before the cut is needed for it.
            said_pairs -= facts.pairs
            said_names -= facts.identifiers
    half = "tune" if sha256(path.name.split(".")[0].encode()).digest()[0] % 2 == 0 else "report"
    return Case(half, before, frozenset(pairs), frozenset(names), summary)


def _seconds() -> float:
    """Of the processor, for facts and skeleton of as much as is compacted at once; the middle of several."""
    records: list[Said] = []
    size = 0
    for path in files_in(DATA):
        for session in read_recorded(path):
            for said in (said for step in session.steps for said in (*step.heard, step.reply)):
                records.append(said)
                size += estimate_blocks(said.blocks)
        if size >= TIMED_TOKENS:
            break
    view = View.of(records)
    times: list[float] = []
    for _ in range(TIMED_ROUNDS):
        began = time.process_time()
        facts = Facts.of(records).without(view.items[tail_from(view.items, TAIL_TOKENS) :])
        _skeleton(facts, BUDGETS[-1], SHARE)
        times.append(time.process_time() - began)
    return median(times)


def page(result: JsonObject) -> str:
    """The figures for people."""
    lines = [
        "# What facts alone keep",
        "",
        "Percent of the pairs of identifiers, and of the identifiers, that replies behind a cut needed from",
        "before it and found in what stood for that; `tokens`: its mean length. `tail`: the newest rounds of",
        f"at most {TAIL_TOKENS:,} tokens. With a budget: for words and actions together, words at most the",
        "percentage beside it, actions what is left. `tune` is the half that budgets were chosen on.",
        "Recorded summaries were written by the model of the session, and have no tail of their own.",
        "Files that are read again after a compaction are left out for everybody.",
        "",
        f"Facts and skeleton of {TIMED_TOKENS:,} tokens: {result['facts_and_skeleton_ms']} ms of CPU time.",
        f"Measured {result['date']}, {_machine(result['machine'])}.",
    ]
    for title, key in (("Cut in the middle", "middle"), ("Where sessions were compacted", "boundaries")):
        lines += ["", f"## {title}", "", *_rows(result[key])]
    return "\n".join(lines) + "\n"


def _rows(halves: Json) -> Iterator[str]:
    assert isinstance(halves, dict)
    tables = [one for one in halves.values() if isinstance(one, dict)]
    heads = [
        f"{half}: {one['cases']} cases of {one['tokens_before_the_cut']} tokens, {one['pairs_needed']} pairs."
        for half, one in zip(halves, tables, strict=True)
    ]
    yield from (*heads[:1], "", *heads[1:], "")
    yield "| kept | pairs, tune | pairs, report | identifiers, tune | identifiers, report | tokens, report |"
    yield "|---|---|---|---|---|---|"
    kept = [one["kept"] for one in tables]
    assert isinstance(kept[0], dict) and isinstance(kept[1], dict)
    for name in kept[0]:
        tune, report = kept[0][name], kept[1][name]
        assert isinstance(tune, dict) and isinstance(report, dict)
        yield (
            f"| {name} | {tune['pairs']} | {report['pairs']} | {tune['identifiers']} | "
            f"{report['identifiers']} | {report['tokens']} |"
        )


def _machine(machine: Json) -> str:
    assert isinstance(machine, dict)
    return f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}, load {machine['load']}"


if __name__ == "__main__":
    sys.exit(main())
