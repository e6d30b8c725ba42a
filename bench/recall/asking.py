"""Every question of a set put to every ranker, to its own store and, where asked for, to another's."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench.recall import mem0_peer
from bench.recall.dense import MiniLm, Vectors
from bench.recall.ours import DEPTH, Attached, Ours
from bench.recall.peers import Bm25s, Peer, build
from bench.recall.schema import Question, Store

PICKS = 5


@dataclass(frozen=True)
class Tools:
    """What the peers of a run need."""

    peers: tuple[str, ...]
    vectors: Vectors | None
    has_mem0: bool


@dataclass(frozen=True)
class Row:
    """One question and what became of it."""

    question: Question
    attached: Attached
    ranked: dict[str, list[str]] = field(default_factory=dict)
    """By ranker, best first; empty for a question that was put to another store."""
    tokens: dict[str, int] = field(default_factory=dict)
    """What each ranker's first five would cost."""
    signals: dict[str, float] = field(default_factory=dict)
    """What might tell whether anything answers."""
    attached_embed: Attached | None = None
    """The same as `attached` with meaning beside words, before the newer is put first."""


class Held:
    """One store with every ranker ready."""

    def __init__(self, store: Store, folder: Path, tools: Tools) -> None:
        self.store = store
        self.ours = Ours(store, folder, tools.vectors)
        self.peers: dict[str, Peer] = build(list(tools.peers), store, tools.vectors)
        if tools.has_mem0 and tools.vectors and store.name.partition("/")[0] in mem0_peer.SETS:
            self.peers["mem0"] = mem0_peer.Mem0(store, folder / "mem0", tools.vectors.numbers)

    def ask(self, question: Question) -> Row:
        """A question of this store."""
        ranked = {"nacre": self.ours.rank(question)}
        meant = self.ours.with_meaning(question)
        ranked |= {"nacre_embed": meant[0]} if meant else {}
        ranked |= {name: peer(question)[:DEPTH] for name, peer in self.peers.items()}
        tokens = {name: sum(self.ours.tokens(one) for one in ids[:PICKS]) for name, ids in ranked.items()}
        attached = self.ours.attach(question)
        by_meaning = self._attached(meant[1]) if meant else None
        return Row(question, attached, ranked, tokens, self.signals(question), by_meaning)

    def _attached(self, ids: tuple[str, ...]) -> Attached:
        return Attached(ids, sum(self.ours.tokens(one) for one in ids))

    def ask_of_another(self, question: Question) -> Row:
        """A question that nothing here answers."""
        return Row(question, self.ours.attach(question), signals=self.signals(question))

    def signals(self, question: Question) -> dict[str, float]:
        sure = self.ours.certainty(question)
        found = {"relevance": sure.relevance, "match": sure.match}
        bm25s, minilm = self.peers.get("bm25s"), self.peers.get("minilm")
        if isinstance(bm25s, Bm25s):
            found |= {"bm25s_per_word": bm25s.per_word(question), "bm25s_ratio": bm25s.ratio(question)}
        if isinstance(minilm, MiniLm):
            found["minilm_cosine"] = minilm.cosine(question)
        return found


def hold(stores: Sequence[Store], tools: Tools, stack: ExitStack) -> list[Held]:
    """All stores of a set at once, until the stack is closed."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nacre-bench-")))
    return [Held(store, folder / str(i), tools) for i, store in enumerate(stores)]


def one_by_one(stores: Sequence[Store], tools: Tools) -> Iterator[Row]:
    """Each store built, asked and dropped: for sets of many."""
    for store in stores:
        with ExitStack() as stack:
            (held,) = hold([store], tools, stack)
            yield from (held.ask(question) for question in store.questions)


def own(held: Sequence[Held]) -> list[Row]:
    return [one.ask(question) for one in held for question in one.store.questions]


def elsewhere(held: Sequence[Held], others: Sequence[Held]) -> list[Row]:
    """Every answerable question put to a store of its half that is not its own."""
    rows = []
    for one in held:
        for place, question in enumerate(one.store.questions):
            if question.is_answerable:
                other = _other(one, [o for o in others if o.store.half == question.half], place)
                rows += [other.ask_of_another(question)] if other else []
    return rows


def _other(own_store: Held, others: list[Held], place: int) -> Held | None:
    """The next store of the same set; of another set, each in turn."""
    if own_store in others:
        return others[(others.index(own_store) + 1) % len(others)] if len(others) > 1 else None
    return others[place % len(others)] if others else None
