"""Writes the packaged model: `python -m bench.recall.encoder.export WORK FOLDER [SHIPPED]`.

Reads `notes.safetensors` and `vocabulary.txt` of WORK, leaves out pieces that no text has, and writes
`model.safetensors` and `vocab.txt` to FOLDER. With SHIPPED, prints how near both models are to each other.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.recall.everyday.train import labelled_messages
from nacre.memory.recall.semantic.minilm import (
    MAX_TOKENS,
    MODEL_FILE,
    VOCABULARY_FILE,
    WIDTH,
    Floats,
    MiniLm,
    _Tensors,
)

NOTES_FILE = "notes.safetensors"
LAYERS = 6
BASE_PARTS = {
    "mixed": "attention.output.dense",
    "mixed_norm": "attention.output.LayerNorm",
    "widened": "intermediate.dense",
    "narrowed": "output.dense",
    "narrowed_norm": "output.LayerNorm",
}
"""Our names of a layer's parts, and those of all-MiniLM-L6-v2."""


def rounded(matrix: Floats) -> tuple[npt.NDArray[np.int8], Floats]:
    """Return a matrix in 8 bits and the scale of each row."""
    scales = np.abs(matrix).max(1) / np.float32(127)
    scales[scales == 0] = 1
    return np.clip(np.round(matrix / scales[:, None]), -127, 127).astype(np.int8), scales


def write_tensors(path: Path, tensors: Mapping[str, Floats]) -> None:
    """Write a safetensors file that `MiniLm` reads: matrices in 8 bits, the rest in 32."""
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    at = 0
    for key, stored in _stored(tensors):
        raw = np.ascontiguousarray(stored).tobytes()
        kind = "I8" if stored.dtype == np.int8 else "F32"
        header[key] = {"dtype": kind, "shape": list(stored.shape), "data_offsets": [at, at + len(raw)]}
        parts.append(raw + b"\0" * (-len(raw) % 4))
        at += len(parts[-1])
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    path.write_bytes(len(head).to_bytes(8, "little") + head + b"".join(parts))


def _stored(tensors: Mapping[str, Floats]) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    for name, tensor in tensors.items():
        if tensor.ndim == 2 and len(tensor) > 1:
            rows, scales = rounded(tensor)
            yield name, rows
            yield f"{name}#scales", scales
        else:
            yield name, tensor.astype(np.float32)


def is_used(piece: str) -> bool:
    """Whether any text can have a piece: ideographs are words of their own, and never continue one."""
    follows = piece.startswith("##") and any("\u4e00" <= c <= "\u9fff" for c in piece)
    return not follows and not piece.startswith("[unused")


def packaged_name(name: str) -> str:
    """Return the name of a tensor in the package."""
    name = name.removeprefix("layers.")
    if name in ("words.weight", "places.weight"):
        return name.removesuffix(".weight")
    module, _, kind = name.rpartition(".")
    return f"{module}.{'scale' if kind == 'weight' else 'shift'}" if module.endswith("norm") else name


def export(work: Path, folder: Path) -> None:
    """Write the packaged model."""
    vocabulary = (work / "vocabulary.txt").read_text(encoding="utf-8").splitlines()
    kept = [i for i, piece in enumerate(vocabulary) if is_used(piece)]
    trained = _Tensors(work / NOTES_FILE)
    names = [name for name in trained if not name.endswith("#scales")]
    tensors = {packaged_name(name): trained[name] for name in names}
    tensors["words"] = tensors["words"][kept]
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(folder / MODEL_FILE, tensors)
    text = "".join(f"{vocabulary[i]}\n" for i in kept)
    (folder / VOCABULARY_FILE).write_text(text, encoding="utf-8")


def packaged_base(base: Path, folder: Path) -> None:
    """Write all-MiniLM-L6-v2 as `MiniLm` reads it, only rounded; it has no estimate of need."""
    found = _Tensors(base / MODEL_FILE)
    places = (
        found["embeddings.position_embeddings.weight"] + found["embeddings.token_type_embeddings.weight"][0]
    )
    tensors: dict[str, Floats] = {
        "words": found["embeddings.word_embeddings.weight"],
        "places": places[:MAX_TOKENS],
        "need.weight": np.zeros((1, WIDTH), np.float32),
        "need.bias": np.zeros(1, np.float32),
    }
    for kind in ("weight", "bias"):
        tensors[packaged_name(f"norm.{kind}")] = found[f"embeddings.LayerNorm.{kind}"]
        for number in range(LAYERS):
            layer = f"encoder.layer.{number}"
            heads = [found[f"{layer}.attention.self.{name}.{kind}"] for name in ("query", "key", "value")]
            tensors[f"{number}.attended.{kind}"] = np.concatenate(heads)
            for ours, theirs in BASE_PARTS.items():
                tensors[packaged_name(f"{number}.{ours}.{kind}")] = found[f"{layer}.{theirs}.{kind}"]
    write_tensors(folder / MODEL_FILE, tensors)
    shutil.copy(base / VOCABULARY_FILE, folder / VOCABULARY_FILE)


def compare(folder: Path, other: Path, texts: list[str]) -> str:
    """Return how similar the vectors of texts are in two models, and how often both find the same need."""
    ours, theirs = MiniLm(folder), MiniLm(other)
    one, two = (np.array([model.encode(text) for text in texts]) for model in (ours, theirs))
    cosines = (one * two).sum(1)
    same = [(ours.need(a) > 0) == (theirs.need(b) > 0) for a, b in zip(one, two, strict=True)]
    return (
        f"{len(texts)} texts: cosine at least {cosines.min():.4f}, mean {cosines.mean():.4f}; "
        f"the same need {np.mean(same):.1%}"
    )


def main(work: Path, folder: Path, shipped: Path | None = None) -> None:
    export(work, folder)
    if shipped:
        print(compare(folder, shipped, [text for text, _ in labelled_messages()][::10]))


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        raise SystemExit("usage: python -m bench.recall.encoder.export WORK FOLDER [SHIPPED]")
    main(*map(Path, sys.argv[1:4]))
