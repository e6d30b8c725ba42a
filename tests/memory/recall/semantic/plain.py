"""The model written out the plain way, and made-up weights for it: what the fast way is held against."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="vectors need numpy: install the extra `embed`")

SIZE, INNER, LAYERS, HEADS = 384, 1536, 6, 12
VOCABULARY = ["[UNK]", "[CLS]", "[SEP]", *"abcdefghij"]


def write(folder: Path) -> dict[str, Any]:
    """A folder with a model of the right shape and weights that mean nothing."""
    chance = np.random.default_rng(7)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(VOCABULARY), SIZE),
        "embeddings.position_embeddings.weight": (512, SIZE),
        "embeddings.token_type_embeddings.weight": (2, SIZE),
        **_norm("embeddings"),
    }
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        for name in ("query", "key", "value"):
            shapes |= _linear(f"{at}.attention.self.{name}", SIZE, SIZE)
        shapes |= _linear(f"{at}.attention.output.dense", SIZE, SIZE) | _norm(f"{at}.attention.output")
        shapes |= _linear(f"{at}.intermediate.dense", INNER, SIZE) | _linear(
            f"{at}.output.dense", SIZE, INNER
        )
        shapes |= _norm(f"{at}.output")
    tensors = {n: chance.standard_normal(s, np.float32) * np.float32(0.08) for n, s in shapes.items()}
    header, at_byte = {}, 0
    for name, tensor in tensors.items():
        header[name] = {
            "dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at_byte, at_byte + tensor.nbytes]
        }  # fmt: skip
        at_byte += tensor.nbytes
    head = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    head += b" " * (-len(head) % 8)
    body = b"".join(tensor.tobytes() for tensor in tensors.values())
    (folder / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + body)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY), encoding="utf-8")
    return tensors


def encode(w: dict[str, Any], numbers: list[int]) -> Any:
    """The vector of these word pieces."""
    x = w["embeddings.word_embeddings.weight"][numbers].astype(np.float64)
    x += w["embeddings.position_embeddings.weight"][: len(numbers)]
    x = _normed(w, x + w["embeddings.token_type_embeddings.weight"][0], "embeddings")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        q, k, v = (
            _times(w, x, f"{at}.attention.self.{name}").reshape(len(x), HEADS, -1).transpose(1, 0, 2)
            for name in ("query", "key", "value")
        )
        odds = np.exp(q @ k.transpose(0, 2, 1) / math.sqrt(SIZE // HEADS))
        mixed = (odds / odds.sum(axis=2, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(x), SIZE)
        x = _normed(w, x + _times(w, mixed, f"{at}.attention.output.dense"), f"{at}.attention.output")
        wide = _times(w, x, f"{at}.intermediate.dense")
        wide = wide * (1 + np.vectorize(math.erf)(wide / math.sqrt(2))) / 2
        x = _normed(w, x + _times(w, wide, f"{at}.output.dense"), f"{at}.output")
    mean = x.mean(axis=0)
    return mean / np.linalg.norm(mean)


def _linear(name: str, outputs: int, inputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _norm(name: str) -> dict[str, tuple[int, ...]]:
    return {f"{name}.LayerNorm.weight": (SIZE,), f"{name}.LayerNorm.bias": (SIZE,)}


def _times(w: dict[str, Any], x: Any, name: str) -> Any:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def _normed(w: dict[str, Any], x: Any, name: str) -> Any:
    centred = x - x.mean(axis=1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-12)
    return scaled * w[f"{name}.LayerNorm.weight"] + w[f"{name}.LayerNorm.bias"]
