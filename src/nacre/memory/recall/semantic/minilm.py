"""The packaged encoder in numpy: six layers over word pieces, averaged to one vector of unit length.

The model is all-MiniLM-L6-v2 with further pieces, trained further, rounded to 8 bits (`model/README.md`).

Matrices are kept in blocks of 32 columns and multiplied with at most 20 rows at a time. A question has a
dozen rows: for so few, small blocks take half the time of one large product. None is large enough for BLAS to
start threads, either, which on a busy machine cost many times what they bring.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]

WIDTH = 384
"""Numbers in a vector."""
MAX_TOKENS = 256
"""What the model was trained on; the rest of a longer text is not read."""
NAME = "nacre-notes-1"
"""Changes with the weights, so that vectors of earlier ones are computed again."""
MODEL_FILE = "model.safetensors"
VOCABULARY_FILE = "vocab.txt"
_NEED_SCALE = np.float32(4)
"""The weights of `need` were learnt on vectors of this length."""
_LAYERS = 6
_HEADS = 12
_BLOCK = WIDTH // _HEADS
"""Columns of a block: a head's share, so that queries, keys and values come out head by head."""
_ROWS = 20
"""Rows multiplied at once: 20 x 384 x 32 stays below where OpenBLAS takes a second thread."""
_EPSILON = np.float32(1e-12)
_SCALES = "#scales"
_TYPES = {"I8": np.int8, "F32": np.float32}


class MiniLm:
    """Texts to vectors; holds no state beside its weights, so threads may share it."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError or ValueError when the folder does not hold the model."""
        self.name = NAME
        self.width = WIDTH
        tensors = _Tensors(folder / MODEL_FILE)
        vocabulary = (folder / VOCABULARY_FILE).read_text(encoding="utf-8").splitlines()
        try:
            self._pieces = WordPiece(vocabulary)
            self._words = tensors.rounded("words")
            self._places = tensors["places"]
            self._norm = _Norm.of(tensors, "norm")
            self._layers = [_Layer.of(tensors, str(i)) for i in range(_LAYERS)]
            self._need = tensors["need.weight"][0], float(tensors["need.bias"][0])
        except KeyError as missing:
            raise ValueError(f"{folder} is not the model {NAME}: {missing} is missing") from None

    def need(self, vector: Floats) -> float:
        """Return the log-odds that a message with this vector needs a memory."""
        weight, bias = self._need
        return float(weight @ vector * _NEED_SCALE) + bias

    def encode(self, text: str, *, tokens: int | None = None) -> Floats:
        """The vector of a text's first tokens, 256 unless told."""
        numbers = self._pieces.tokens(text, tokens or MAX_TOKENS)
        size = len(numbers)
        groups = -(-size // _ROWS)
        x = np.zeros((groups * -(-size // groups), WIDTH), np.float32)
        rows, scales = self._words
        x[:size] = rows[numbers] * scales[numbers, None] + self._places[:size]
        x = self._norm(x)
        for layer in self._layers:
            x = layer(x, size, groups)
        mean = x[:size].mean(axis=0)
        vector: Floats = mean / np.maximum(np.linalg.norm(mean), _EPSILON)
        return vector


@dataclass(frozen=True, slots=True)
class _Norm:
    """Rows to mean 0 and variance 1, then scaled and shifted as learnt."""

    scale: Floats
    shift: Floats

    @classmethod
    def of(cls, tensors: Mapping[str, Floats], name: str) -> _Norm:
        return cls(tensors[f"{name}.scale"], tensors[f"{name}.shift"])

    def __call__(self, x: Floats) -> Floats:
        x = x - x.mean(axis=1, keepdims=True)
        x *= 1 / np.sqrt(np.einsum("ij,ij->i", x, x) / np.float32(WIDTH) + _EPSILON)[:, None]
        x *= self.scale
        x += self.shift
        return x


@dataclass(frozen=True, slots=True)
class _Linear:
    """A learnt product and sum; `blocks` is (columns / 32, inputs / 384, 384, 32)."""

    blocks: Floats
    bias: Floats

    @classmethod
    def of(cls, weight: Floats, bias: Floats) -> _Linear:
        columns, inputs = weight.shape
        shaped = weight.reshape(columns // _BLOCK, _BLOCK, inputs // WIDTH, WIDTH)
        blocks = np.ascontiguousarray(shaped.transpose(0, 2, 3, 1))
        return cls(blocks, bias.reshape(-1, 1, _BLOCK).copy())

    def __call__(self, x: Floats, groups: int) -> Floats:
        """(rows, inputs) to (columns / 32, rows, 32)."""
        parts = x.reshape(groups, -1, self.blocks.shape[1], WIDTH).transpose(2, 0, 1, 3)
        found: Floats = np.matmul(parts[0], self.blocks[:, 0, None])
        for i in range(1, len(parts)):
            found += np.matmul(parts[i], self.blocks[:, i, None])
        found = found.reshape(len(self.blocks), len(x), _BLOCK)
        found += self.bias
        return found


@dataclass(frozen=True, slots=True)
class _Layer:
    """Attention over all tokens, then each token by itself; what came in is added to both."""

    attended: _Linear
    mixed: _Linear
    mixed_norm: _Norm
    widened: _Linear
    narrowed: _Linear
    narrowed_norm: _Norm

    @classmethod
    def of(cls, tensors: Mapping[str, Floats], name: str) -> _Layer:
        def linear(part: str) -> _Linear:
            return _Linear.of(tensors[f"{name}.{part}.weight"], tensors[f"{name}.{part}.bias"])

        weight = tensors[f"{name}.attended.weight"]
        bias = tensors[f"{name}.attended.bias"]
        # Attention divides by the root of a head's width: once here instead of at every product.
        weight[:WIDTH] /= np.float32(math.sqrt(_BLOCK))
        bias[:WIDTH] /= np.float32(math.sqrt(_BLOCK))
        return cls(
            attended=_Linear.of(weight, bias),
            mixed=linear("mixed"),
            mixed_norm=_Norm.of(tensors, f"{name}.mixed_norm"),
            widened=linear("widened"),
            narrowed=linear("narrowed"),
            narrowed_norm=_Norm.of(tensors, f"{name}.narrowed_norm"),
        )

    def __call__(self, x: Floats, size: int, groups: int) -> Floats:
        """`x` has `size` tokens and zeros after them, which nothing may attend to."""
        heads = self.attended(x, groups).reshape(3, _HEADS, len(x), _BLOCK)
        queries = heads[0].reshape(_HEADS, groups, -1, _BLOCK)
        keys = heads[1, :, None, :size]
        values = heads[2, :, None, :size]
        weights = queries @ keys.transpose(0, 1, 3, 2)
        weights -= weights.max(axis=3, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=3, keepdims=True)
        attended = _rows((weights @ values).reshape(_HEADS, len(x), _BLOCK))
        x = self.mixed_norm(_rows(self.mixed(attended, groups)) + x)
        wide = _rows(_gelu(self.widened(x, groups)))
        return self.narrowed_norm(_rows(self.narrowed(wide, groups)) + x)


def _rows(blocks: Floats) -> Floats:
    """(columns / 32, rows, 32) to (rows, columns)."""
    return blocks.transpose(1, 0, 2).reshape(blocks.shape[1], -1)


_ERF = tuple(np.float32(c) for c in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592))
"""Abramowitz and Stegun 7.1.26: numpy has no erf, and its error of 1e-7 is that of the numbers themselves."""
_ERF_SLOPE = np.float32(0.3275911)
_GELU_AT_ONCE = 16_384
"""Numbers whose intermediate results stay in the processor's cache; a long text has 400,000 in a layer."""


def _gelu(x: Floats) -> Floats:
    """x times the normal distribution's share below x, in place."""
    flat = x.reshape(-1)
    for start in range(0, len(flat), _GELU_AT_ONCE):
        part = flat[start : start + _GELU_AT_ONCE]
        part[:] = np.maximum(part, np.float32(0)) - _gelu_below(np.abs(part))
    return x


def _gelu_below(size: Floats) -> Floats:
    """What gelu(|x|) lacks of |x|: |x| erfc(|x| / √2) / 2."""
    z = size * np.float32(math.sqrt(0.5))
    t = np.reciprocal(z * _ERF_SLOPE + np.float32(1))
    tail = t * _ERF[0]
    for coefficient in _ERF[1:]:
        tail += coefficient
        tail *= t
    z *= -z
    tail *= np.exp(z, out=z)
    size *= tail
    size *= np.float32(0.5)
    return size


class _Tensors(Mapping[str, Floats]):
    """The tensors of a safetensors file as float32; a matrix is stored as bytes with a scale for each row."""

    def __init__(self, path: Path) -> None:
        raw = np.fromfile(path, np.uint8)
        start = 8 + int.from_bytes(raw[:8].tobytes(), "little")
        self._header = json.loads(raw[8:start].tobytes())
        self._body = raw[start:]

    def __getitem__(self, name: str) -> Floats:
        if f"{name}{_SCALES}" not in self._header:
            return self._stored(name).astype(np.float32)
        rows, scales = self.rounded(name)
        return rows * scales[:, None]

    def __iter__(self) -> Iterator[str]:
        return iter(self._header)

    def __len__(self) -> int:
        return len(self._header)

    def rounded(self, name: str) -> tuple[npt.NDArray[np.int8], Floats]:
        """Return a matrix as it is stored: bytes, and the scale of each row."""
        return self._stored(name), self._stored(f"{name}{_SCALES}")

    def _stored(self, name: str) -> npt.NDArray[Any]:
        at = self._header[name]
        first, last = at["data_offsets"]
        return self._body[first:last].view(_TYPES[at["dtype"]]).reshape(at["shape"])


MAX_WORD = 100
"""Characters; what is longer is no word, and looking for its pieces would take quadratic time."""
KNOWN_WORDS = 20_000
"""Words whose pieces are remembered: most of any text is the same few thousand."""
_IDEOGRAPHS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ebef"
_WORD = re.compile(rf"[{_IDEOGRAPHS}]|[^\W_{_IDEOGRAPHS}]+|_|[^\w\s]")


class WordPiece:
    """The pieces of one vocabulary."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self._start, self._end = self._numbers["[CLS]"], self._numbers["[SEP]"]
        self._unknown = (self._numbers["[UNK]"],)
        self._pieces = lru_cache(KNOWN_WORDS)(self._pieces_of)

    def tokens(self, text: str, limit: int) -> list[int]:
        """At most `limit` numbers, those of start and end among them; what comes after is not read."""
        found = [self._start]
        for word in words(text):
            found.extend(self._pieces(word))
            if len(found) >= limit - 1:
                break
        return [*found[: limit - 1], self._end]

    def _pieces_of(self, word: str) -> tuple[int, ...]:
        """The longest known pieces from the left; a word with a part that is none is unknown as a whole."""
        if len(word) > MAX_WORD:
            return self._unknown
        found: list[int] = []
        start = 0
        mark = ""
        while start < len(word):
            ends = range(len(word), start, -1)
            end = next((end for end in ends if mark + word[start:end] in self._numbers), start)
            if end == start:
                return self._unknown
            found.append(self._numbers[mark + word[start:end]])
            start = end
            mark = "##"
        return tuple(found)


def words(text: str) -> Iterator[str]:
    """Words, ideographs and marks of a text, in lower case and without accents."""
    spread = unicodedata.normalize("NFD", text.lower())
    if not spread.isascii():
        spread = "".join(c for c in spread if unicodedata.category(c) != "Mn")
    return (found[0] for found in _WORD.finditer(spread))
