"""The vectors of one memory directory: kept up to date, and used to rank; none without the extra `embed`.

Vectors come from the model in this package. numpy and the model are loaded once per process, by the
first call that needs them. `catch_up` may run in one thread while another ranks, and several processes may
share the file.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from nacre.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from nacre.memory.recall.ranking.analysis import Doc
    from nacre.memory.recall.ranking.ranker import Ranker, Ranking
    from nacre.memory.recall.semantic.minilm import Floats
    from nacre.memory.recall.semantic.vectors import Vectors, VectorSource

MODEL_FOLDER = Path(__file__).parent / "model"
TEXT_CHARS = 2_500
"""Characters of a file that are read: more than the model's 256 tokens, and quick to compare."""
QUESTION_TOKENS = 64
"""Tokens of a question, as in the training: each takes a third of a millisecond."""
HALF_CHARS = 120
"""Characters at the start and at the end of a long message, where the question is."""
CACHED_QUESTIONS = 64
"""A message is ranked for project, user and team in turn, and encoded once."""


class Encoder(Protocol):
    """Encodes texts as vectors of unit length."""

    @property
    def name(self) -> str:
        """The name of the model; vectors of another model cannot be compared."""
        ...

    @property
    def width(self) -> int: ...

    def __hash__(self) -> int: ...

    def encode(self, text: str, *, tokens: int | None = None) -> Floats: ...

    def need(self, vector: Floats) -> float:
        """Return the log-odds that a message with this vector needs a memory."""
        ...


_LETTER = re.compile(r"[^\W\d_]")
_READABLE = re.compile(r"[A-Za-z\u00c0-\u024f\u3040-\u30ff\u4e00-\u9fff]")
"""Latin letters, kana and ideographs."""


def is_readable(text: str) -> bool:
    """Whether the model can read a text: it knows Latin script, Chinese and Japanese."""
    start = text[:TEXT_CHARS]
    return start.isascii() or 2 * len(_READABLE.findall(start)) >= len(_LETTER.findall(start))


@lru_cache(CACHED_QUESTIONS)
def encode_question(encoder: Encoder, text: str) -> Floats:
    """Return the vector of a question."""
    return encoder.encode(question_text(text), tokens=QUESTION_TOKENS)


def question_text(text: str) -> str:
    """Return what is read of a question: of a long message the start and the end."""
    return f"{text[:HALF_CHARS]} {text[-HALF_CHARS:]}" if len(text) > 2 * HALF_CHARS else text


def packaged_encoder() -> Encoder:
    """Return the model of the installed package, loaded once per process."""
    with _LOADING:
        return _loaded()


_LOADING = threading.Lock()


def is_loaded() -> bool:
    """Whether the packaged model is in memory."""
    return _loaded.cache_info().currsize > 0


@lru_cache(1)
def _loaded() -> Encoder:
    from nacre.memory.recall.semantic.minilm import MiniLm  # noqa: PLC0415  as above

    if not has_model():
        raise ModuleNotFoundError("no module named numpy: install the extra `embed`")
    return MiniLm(MODEL_FOLDER)


def has_model() -> bool:
    """Whether the model can be used: it needs numpy, which is not imported here."""
    return find_spec("numpy") is not None and MODEL_FOLDER.is_dir()


VECTORS_FILE = "vectors.bin"
SAVE_FROM = 64
SAVE_SHARE = 20
"""New vectors are saved when there are 64 of them and a twentieth of all, since a save writes the whole file,
and when none is missing."""


def semantic_index(cache: Path, *, writes: bool = True) -> SemanticIndex | None:
    """Return the semantic index of a cache folder; None when the extra `embed` is not installed."""
    return SemanticIndex(cache, writes=writes) if has_model() else None


class SemanticIndex:
    """The vectors of one memory directory, and the ranking with them."""

    def __init__(
        self, cache: Path, *, encoder: Encoder | None = None, writes: bool = True, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._path = cache / "recall" / VECTORS_FILE
        self._given_encoder = encoder
        self.writes = writes
        self._clock = clock
        self._working = threading.Lock()
        self._vectors: Vectors | None = None
        self._seen: tuple[int, ...] = ()
        self._unsaved = 0

    @property
    def is_ready(self) -> bool:
        """Whether model and vectors are in memory, so that a ranking is fast."""
        return self._vectors is not None and (self._given_encoder is not None or is_loaded())

    @property
    def is_saved(self) -> bool:
        """Whether vectors were saved before, perhaps by another process."""
        return self._path.exists()

    def catch_up(
        self, texts: Mapping[str, str], *, seconds: float, stamps: Mapping[str, str] | None = None
    ) -> int:
        """Encode new and changed files in the given order; return how many are still missing.

        `texts` has every file of the memory: vectors of others are removed. With `stamps`, files with an
        unchanged stamp are not read. At least one file is encoded unless `seconds` is 0.
        """
        from nacre.memory.recall.semantic.vectors import unread  # noqa: PLC0415  as above

        with self._working:
            self._load()
            encoder = self._encoder
            found, missing = self._sort(texts, stamps or {})
            until = self._clock.seconds() + seconds
            fresh: dict[str, Floats] = {}
            for file, (text, _) in missing.items():
                if seconds <= 0 or (fresh and self._clock.seconds() >= until):
                    break
                fresh[file] = encoder.encode(text) if is_readable(text) else unread(encoder.width)
            self._replace(found, {file: (missing[file][1], vector) for file, vector in fresh.items()})
            left = len(missing) - len(fresh)
            due = max(SAVE_FROM, len(self._current.files) // SAVE_SHARE)
            if self._unsaved and (not left or self._unsaved >= due):
                self._save()
            return left

    def rank(self, ranker: Ranker, text: str, *, asked: date | None = None, limit: int = 10) -> Ranking:
        """Rank by words and vectors; by words alone without vectors or for a text that is not readable."""
        from nacre.memory.recall.semantic.vectors import Similarities, rank_by_vectors  # noqa: PLC0415  numpy is slow to load

        vectors = self._vectors
        if vectors is None:
            with self._working:
                self._load()
                vectors = self._vectors
        if vectors is None or not vectors.files or not is_readable(text):
            return ranker.rank(text, asked=asked, limit=limit)
        scores, cosines = vectors.similarity(encode_question(self._encoder, text))
        found = Similarities(vectors.number, vectors.names, scores, cosines)
        return rank_by_vectors(ranker, text, found, asked=asked, limit=limit)

    def similarities(self, texts: Sequence[str]) -> dict[str, dict[str, tuple[float, float]]]:
        """Return, for each text that the model can read, how similar each file with a vector is to it.

        Two numbers per file: without the mean of all files, and with it.
        """
        vectors = self._vectors
        if vectors is None or not vectors.files:
            return {}
        found = {}
        for text in filter(is_readable, texts):
            scores, cosines = vectors.similarity(encode_question(self._encoder, text))
            pairs = zip(vectors.names, scores.tolist(), cosines.tolist(), strict=True)
            found[text] = {file: (score, cosine) for file, score, cosine in pairs if score == score}
        return found

    def needed(self, text: str, by_words: float) -> float:
        """Return the log-odds that a message needs a memory: the mean of the model's and `by_words`."""
        if not is_readable(text):
            return by_words
        return (self._encoder.need(encode_question(self._encoder, text)) + by_words) / 2

    def close(self) -> None:
        """Save new vectors and free the memory; a later call reads them again."""
        with self._working:
            if self._unsaved:
                self._save()
            self._vectors = None
            self._seen = ()
            self._unsaved = 0

    @property
    def _encoder(self) -> Encoder:
        return self._given_encoder or packaged_encoder()

    def _load(self) -> None:
        """Read the file if another process has replaced it."""
        from nacre.memory.recall.semantic.vectors import Vectors, load_vectors  # noqa: PLC0415  as above

        encoder = self._encoder
        current = self._vectors or Vectors.empty(encoder.width)
        seen = _state(self._path)
        if seen != self._seen:
            self._seen = seen
            try:
                current = current.updated(load_vectors(self._path, encoder.name, encoder.width))
            except (OSError, ValueError):
                # Missing, damaged or of another model: save what is in memory, encode the rest again.
                self._unsaved += bool(current.files)
        self._vectors = current

    def _sort(
        self, texts: Mapping[str, str], stamps: Mapping[str, str]
    ) -> tuple[dict[str, tuple[VectorSource, int]], dict[str, tuple[str, VectorSource]]]:
        """Return the files that have a vector, with its row, and those that need one, in the given order."""
        from nacre.memory.recall.semantic.vectors import VectorSource, digest_of  # noqa: PLC0415  as above

        current = self._current
        found: dict[str, tuple[VectorSource, int]] = {}
        missing: dict[str, tuple[str, VectorSource]] = {}
        for file in texts:
            stamp = stamps.get(file, "")
            known = current.files.get(file)
            if known is not None and stamp and stamp == known.stamp:
                found[file] = known, current.number[file]
                continue
            text = texts.get(file)
            if text is None:
                continue
            read = text[:TEXT_CHARS]
            state = VectorSource(digest_of(read), stamp)
            row = current.by_digest.get(state.digest)
            if row is None:
                missing[file] = read, state
                if known is not None:
                    # Until the new text is encoded, the vector of the old one is better than none.
                    found[file] = known, current.number[file]
            else:
                found[file] = state, row
        return found, missing

    def _replace(
        self, found: dict[str, tuple[VectorSource, int]], fresh: dict[str, tuple[VectorSource, Floats]]
    ) -> None:
        from nacre.memory.recall.semantic.vectors import Vectors  # noqa: PLC0415  as above

        current = self._current
        if not fresh and {file: known for file, (known, _) in found.items()} == current.files:
            return
        same = {file: one for file, one in found.items() if file not in fresh}
        rows = current.rows[[row for _, row in same.values()]]
        old = Vectors({file: known for file, (known, _) in same.items()}, rows)
        self._vectors = old.updated(Vectors.of(fresh, self._encoder.width))
        self._unsaved += max(1, len(fresh))

    @property
    def _current(self) -> Vectors:
        if self._vectors is None:
            raise RuntimeError("vectors are used before they are loaded")
        return self._vectors

    def _save(self) -> None:
        from nacre.memory.recall.semantic.vectors import save_vectors  # noqa: PLC0415  as above

        self._unsaved = 0
        if not self.writes:
            return
        # What cannot be saved is encoded again later.
        with suppress(OSError):
            save_vectors(self._current, self._path, self._encoder.name)
            self._seen = _state(self._path)


def text_of(doc: Doc) -> str:
    """Return the text of a memory that is encoded: name, description, author and body."""
    head = f"{doc.name}. {doc.description}".strip(". ")
    says = f"{doc.author}: "
    body = doc.body if not doc.author or doc.body.startswith(says) else says + doc.body
    return f"{head}\n{body}" if head else body


def _state(path: Path) -> tuple[int, ...]:
    """Return the identity of the file at a path; empty when there is none."""
    try:
        stat = path.stat()
    except OSError:
        return ()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
