"""The vectors of one memory directory: in memory as one matrix, on disk as one file that may be thrown away.

The file is read whole and never mapped: a mapped file that somebody cuts short would end the process.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from tempfile import mkstemp
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from nacre.store import disk

Floats: TypeAlias = npt.NDArray[np.float32]

MAGIC = b"nacre vectors 1\n"
"""Another form or another way to encode gets another number: what does not begin so is built again."""
_SIZES = 12
"""Bytes after the magic: a checksum of all that follows it, and the length of the header."""
_LEAST = 1e-9
"""Guards a division: a store of one file is its own mean, and nothing is left of its vector."""


@dataclass(frozen=True, slots=True)
class Known:
    """Which state of a file a vector was made from."""

    digest: str
    """Of the text that was encoded."""
    stamp: str = ""
    """Of the file, as the caller tells states apart; empty when it does not."""


@dataclass(frozen=True)
class Vectors:
    """A vector of unit length for each file, or zero where the model cannot read it; only ever replaced."""

    files: Mapping[str, Known]
    """In the order of the rows."""
    rows: Floats

    @classmethod
    def empty(cls, width: int) -> Vectors:
        return cls({}, np.zeros((0, width), np.float32))

    @classmethod
    def of(cls, found: Mapping[str, tuple[Known, Floats]], width: int) -> Vectors:
        """The vectors of these files."""
        if not found:
            return cls.empty(width)
        return cls(
            {file: one[0] for file, one in found.items()}, np.stack([one[1] for one in found.values()])
        )

    def updated(self, newer: Vectors) -> Vectors:
        """These vectors, with those of `newer` added and in the place of the same files' own."""
        if not self.files or not newer.files:
            return newer if newer.files else self
        kept = [number for file, number in self.number.items() if file not in newer.files]
        files = {file: known for file, known in self.files.items() if file not in newer.files}
        return Vectors(files | dict(newer.files), np.concatenate([self.rows[kept], newer.rows]))

    @cached_property
    def names(self) -> list[str]:
        return list(self.files)

    @cached_property
    def number(self) -> dict[str, int]:
        """The row of each file."""
        return {file: number for number, file in enumerate(self.files)}

    @cached_property
    def by_digest(self) -> dict[str, int]:
        """A row with the vector of this text: a file that was renamed or copied need not be encoded."""
        return {known.digest: number for number, known in enumerate(self.files.values())}

    def likeness(self, question: Floats) -> tuple[Floats, Floats]:
        """How like each file is to a question, -1 to 1: with what all files share taken off, and with it.

        The first tells the files of one store apart, the second a store that the question is not about. NaN
        for a file whose vector is zero: the model cannot read it.
        """
        mean, lengths, to_mean = self._centre
        asked = question - mean
        size = np.float32(max(float(np.linalg.norm(asked)), _LEAST))
        cosines: Floats = self.rows @ question
        # (row - mean) . asked / |row - mean| / |asked|, without a second matrix of rows less their mean.
        scores: Floats = (cosines - to_mean - np.float32(mean @ asked)) / lengths / size
        return scores, cosines

    @cached_property
    def _centre(self) -> tuple[Floats, Floats, Floats]:
        """The mean of all vectors, how far each is from it, and the product of each with it."""
        squares = np.einsum("ij,ij->i", self.rows, self.rows)
        is_read = squares > 0
        mean = self.rows.sum(axis=0) / np.float32(max(1, int(is_read.sum())))
        to_mean = self.rows @ mean
        lengths = np.sqrt(np.maximum(squares - 2 * to_mean + mean @ mean, np.float32(_LEAST)))
        lengths[~is_read] = np.nan
        return mean, lengths, to_mean


def unread(width: int) -> Floats:
    """The vector of a text that the model cannot read."""
    return np.zeros(width, np.float32)


def digest_of(text: str) -> str:
    """What tells one text from another."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def load(path: Path, model: str, width: int) -> Vectors:
    """The vectors in a file; raises OSError or ValueError when they are not there or not this model's."""
    descriptor = disk.open_regular(path, os.O_RDONLY)
    with os.fdopen(descriptor, "rb") as source:
        data = source.read()
    body = memoryview(data)[len(MAGIC) + 4 :]
    sizes = data[len(MAGIC) : len(MAGIC) + _SIZES]
    if not data.startswith(MAGIC) or len(sizes) < _SIZES:
        raise ValueError("no vectors")
    if zlib.crc32(body) != int.from_bytes(sizes[:4], "little"):
        raise ValueError("damaged vectors")
    start = len(MAGIC) + _SIZES + int.from_bytes(sizes[4:], "little")
    try:
        header = json.loads(data[len(MAGIC) + _SIZES : start])
        files = {file: Known(digest, stamp) for file, digest, stamp in header["files"]}
        if header["model"] != model or header["width"] != width:
            raise ValueError("vectors of another model")
    except (KeyError, TypeError) as error:
        raise ValueError("no header of vectors") from error
    rows = np.frombuffer(data, np.float16, offset=start).reshape(len(files), width)
    return Vectors(files, rows.astype(np.float32))


def save(vectors: Vectors, path: Path, model: str) -> None:
    """Write the vectors aside and put them in the file's place, half as exact: ranking does not notice."""
    files = [[file, known.digest, known.stamp] for file, known in vectors.files.items()]
    header = json.dumps({"model": model, "width": vectors.rows.shape[1], "files": files}).encode()
    body = len(header).to_bytes(_SIZES - 4, "little") + header + vectors.rows.astype(np.float16).tobytes()
    disk.make_folder(path.parent)
    descriptor, name = mkstemp(dir=path.parent, prefix=f".{path.name}")
    try:
        with os.fdopen(descriptor, "wb") as target:
            target.write(MAGIC + zlib.crc32(body).to_bytes(4, "little"))
            target.write(body)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)
