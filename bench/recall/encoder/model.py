"""The encoder in PyTorch, for the training; `nacre.memory.recall.semantic.minilm` is the same in numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.recall.encoder.export import BASE_PARTS, LAYERS

WIDTH, HEADS, PLACES = 384, 12, 256
EPSILON = 1e-12


class Layer(nn.Module):
    """Attention over all tokens, then each token by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.attended = nn.Linear(WIDTH, 3 * WIDTH)
        self.mixed = nn.Linear(WIDTH, WIDTH)
        self.mixed_norm = nn.LayerNorm(WIDTH, eps=EPSILON)
        self.widened = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrowed = nn.Linear(4 * WIDTH, WIDTH)
        self.narrowed_norm = nn.LayerNorm(WIDTH, eps=EPSILON)

    def forward(self, x: Tensor, mask: Tensor, drop: float) -> Tensor:
        batch, size, _ = x.shape
        parts = self.attended(x).view(batch, size, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(*parts, attn_mask=mask[:, None, None], dropout_p=drop)
        mixed = self.mixed(found.transpose(1, 2).reshape(batch, size, WIDTH))
        x = self.mixed_norm(x + functional.dropout(mixed, drop))
        return self.narrowed_norm(
            x + functional.dropout(self.narrowed(functional.gelu(self.widened(x))), drop)
        )


class Encoder(nn.Module):
    """Word pieces to one vector of unit length; `need` estimates whether a message needs a memory."""

    drop = 0.0
    """Share of activations that the training leaves out."""

    def __init__(self, pieces: int) -> None:
        super().__init__()
        self.words = nn.Embedding(pieces, WIDTH)
        self.places = nn.Embedding(PLACES, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=EPSILON)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.need = nn.Linear(WIDTH, 1)

    def forward(self, numbers: Tensor, mask: Tensor) -> Tensor:
        drop = self.drop if self.training else 0.0
        x = self.norm(self.words(numbers) + self.places.weight[: numbers.shape[1]])
        x = functional.dropout(x, drop)
        for layer in self.layers:
            x = layer(x, mask, drop)
        kept = mask[..., None].to(x.dtype)
        mean = (x * kept).sum(1).float() / kept.sum(1).float().clamp(min=1)
        return functional.normalize(mean, dim=-1)


def from_base(base: Mapping[str, Any], pieces: int) -> Encoder:
    """Return an encoder with the weights of all-MiniLM-L6-v2; new pieces start near the mean."""
    state = {}
    words = torch.from_numpy(base["embeddings.word_embeddings.weight"])
    new = torch.randn(pieces - len(words), WIDTH) * 0.02 + words[1000:].mean(0)
    state["words.weight"] = torch.cat([words, new])
    places = (
        base["embeddings.position_embeddings.weight"] + base["embeddings.token_type_embeddings.weight"][0]
    )
    state["places.weight"] = torch.from_numpy(places[:PLACES])
    for kind in ("weight", "bias"):
        state[f"norm.{kind}"] = torch.from_numpy(base[f"embeddings.LayerNorm.{kind}"])
        for i in range(LAYERS):
            layer = f"encoder.layer.{i}"
            heads = [base[f"{layer}.attention.self.{name}.{kind}"] for name in ("query", "key", "value")]
            state[f"layers.{i}.attended.{kind}"] = torch.cat([torch.from_numpy(one) for one in heads])
            for ours, theirs in BASE_PARTS.items():
                state[f"layers.{i}.{ours}.{kind}"] = torch.from_numpy(base[f"{layer}.{theirs}.{kind}"])
    state |= {"need.weight": torch.zeros(1, WIDTH), "need.bias": torch.zeros(1)}
    encoder = Encoder(pieces)
    encoder.load_state_dict(state)
    return encoder
