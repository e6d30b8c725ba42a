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
    """Write a model of the right shape with weights that mean nothing; return them as they are read."""
    chance = np.random.default_rng(7)
    shapes: dict[str, tuple[int, ...]] = {"words": (len(VOCABULARY), SIZE), "places": (256, SIZE)}
    shapes |= _norm("norm") | {"need.weight": (1, SIZE), "need.bias": (1,)}
    for layer in range(LAYERS):
        shapes |= _linear(f"{layer}.attended", 3 * SIZE, SIZE) | _linear(f"{layer}.mixed", SIZE, SIZE)
        shapes |= _linear(f"{layer}.widened", INNER, SIZE) | _linear(f"{layer}.narrowed", SIZE, INNER)
        shapes |= _norm(f"{layer}.mixed_norm") | _norm(f"{layer}.narrowed_norm")
    tensors = {}
    header, body = {}, b""
    for name, shape in shapes.items():
        tensor = chance.standard_normal(shape, np.float32) * np.float32(0.08)
        stored = {name: tensor}
        if len(shape) == 2 and name != "need.weight":
            scales = np.abs(tensor).max(1) / np.float32(127)
            stored = {name: np.round(tensor / scales[:, None]).astype(np.int8), f"{name}#scales": scales}
            tensor = stored[name] * scales[:, None]
        tensors[name] = tensor
        for key, one in stored.items():
            kind = "I8" if one.dtype == np.int8 else "F32"
            at = [len(body), len(body) + one.nbytes]
            header[key] = {"dtype": kind, "shape": list(one.shape), "data_offsets": at}
            body += one.tobytes() + b"\0" * (-one.nbytes % 4)
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    (folder / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + body)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY), encoding="utf-8")
    return tensors


def encode(w: dict[str, Any], numbers: list[int]) -> Any:
    """The vector of these word pieces."""
    x = w["words"][numbers].astype(np.float64) + w["places"][: len(numbers)]
    x = _normed(w, x, "norm")
    for layer in range(LAYERS):
        q, k, v = (
            part.reshape(len(x), HEADS, -1).transpose(1, 0, 2)
            for part in np.split(_times(w, x, f"{layer}.attended"), 3, axis=1)
        )
        odds = np.exp(q @ k.transpose(0, 2, 1) / math.sqrt(SIZE // HEADS))
        mixed = (odds / odds.sum(axis=2, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(x), SIZE)
        x = _normed(w, x + _times(w, mixed, f"{layer}.mixed"), f"{layer}.mixed_norm")
        wide = _times(w, x, f"{layer}.widened")
        wide = wide * (1 + np.vectorize(math.erf)(wide / math.sqrt(2))) / 2
        x = _normed(w, x + _times(w, wide, f"{layer}.narrowed"), f"{layer}.narrowed_norm")
    mean = x.mean(axis=0)
    return mean / np.linalg.norm(mean)


def _linear(name: str, outputs: int, inputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _norm(name: str) -> dict[str, tuple[int, ...]]:
    return {f"{name}.scale": (SIZE,), f"{name}.shift": (SIZE,)}


def _times(w: dict[str, Any], x: Any, name: str) -> Any:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def _normed(w: dict[str, Any], x: Any, name: str) -> Any:
    centred = x - x.mean(axis=1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-12)
    return scaled * w[f"{name}.scale"] + w[f"{name}.shift"]
