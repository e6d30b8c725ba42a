"""Trains the encoder of notes: `python -m bench.recall.encoder.train STEP WORK [STEPS]`; needs PyTorch.

STEP is `translations`, `notes` or `left-out`, in this order. Reads from WORK what `prepare` wrote, and writes
`translations.safetensors`, `notes.safetensors` and `left_out.npz`. STEPS ends each training early, to try it.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.recall.encoder.export import NOTES_FILE, write_tensors
from bench.recall.encoder.pairs import LANGUAGES
from nacre.memory.recall.semantic.minilm import _NEED_SCALE, _Tensors

try:
    import torch
except ModuleNotFoundError:
    raise SystemExit("the training needs PyTorch: install the package torch") from None
from torch import Tensor, nn
from torch.nn import functional

from bench.recall.encoder.model import Encoder, from_base

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TRANSLATIONS_FILE = "translations.safetensors"
LEFT_OUT_FILE = "left_out.npz"
GROUPS = 5
"""Of people: each gets vectors by an encoder that was trained on the other groups."""
BATCH, ROUNDS, HELD_BACK = 512, 8, 1_500
"""Of the training on translations."""
WORDS_RATE, OTHERS_RATE, WARM_UP = 2e-3, 3e-4, 150
NOTE_ROUNDS, NOTE_RATE, NEED_RATE, SCALE_RATE, NOTE_WARM_UP = 12, 1e-4, 3e-3, 1e-2, 30
"""Of the training on people."""
DROP = 0.15
"""Share of activations, and of word pieces, that are left out."""
PEOPLE_AT_ONCE, MESSAGES_AT_ONCE, KEPT_AT_ONCE, NEEDS_AT_ONCE = 6, 24, 48, 24
KEPT_PAIRS = {"zh": 50_000, "ja": 20_000, "de": 24_000, "es": 18_000, "fr": 16_000}
"""Pairs whose vectors the training on people keeps as they are."""
MAX_NOTE = 112
_OUT = -1e4

Row = Sequence[int]


class Texts:
    """The pairs of translations and the passages as rows of numbers."""

    def __init__(self, work: Path, limits: dict[str, int] | None = None) -> None:
        found = np.load(work / "texts.npz")
        self.languages = found["languages"]
        rows = {}
        for name in ("english", "translated", "passages"):
            ends = np.cumsum(found[f"{name}_sizes"].astype(np.int64))
            rows[name] = [one.tolist() for one in np.split(found[name], ends[:-1])]
        kept = np.ones(len(self.languages), bool)
        for number, language in enumerate(LANGUAGES if limits else ()):
            kept[np.nonzero(self.languages == number)[0][limits[language] :]] = False
        self.languages = self.languages[kept]
        self.english = [one for one, use in zip(rows["english"], kept, strict=True) if use]
        self.translated = [one for one, use in zip(rows["translated"], kept, strict=True) if use]
        self.passages = rows["passages"]


def encode(encoder: Encoder, rows: Sequence[Row]) -> Tensor:
    """Return the vectors of rows."""
    size = -(-max(map(len, rows)) // 8) * 8
    numbers, mask = np.zeros((len(rows), size), np.int64), np.zeros((len(rows), size), bool)
    for i, row in enumerate(rows):
        numbers[i, : len(row)], mask[i, : len(row)] = row, True
    with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
        found: Tensor = encoder(torch.from_numpy(numbers).to(DEVICE), torch.from_numpy(mask).to(DEVICE))
    return found.float()


@torch.no_grad()
def encode_all(encoder: Encoder, rows: Sequence[Row], size: int = 1024) -> Tensor:
    """Return the vectors of many rows, rows of similar lengths at once, without what training needs."""
    was_training = encoder.training
    encoder.eval()
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    found = torch.empty(len(rows), 384, device=DEVICE)
    for start in range(0, len(order), size):
        part = order[start : start + size]
        found[part] = encode(encoder, [rows[i] for i in part])
    encoder.train(was_training)
    return found


def read_encoder(path: Path, pieces: int) -> Encoder:
    tensors = _Tensors(path)
    names = [one for one in tensors if not one.endswith("#scales")]
    encoder = Encoder(pieces)
    encoder.load_state_dict({name: torch.from_numpy(tensors[name].copy()) for name in names})
    return encoder.to(DEVICE)


def write_encoder(encoder: Encoder, path: Path) -> None:
    write_tensors(path, {name: one.detach().cpu().numpy() for name, one in encoder.state_dict().items()})


def distance(found: Tensor, wanted: Tensor) -> Tensor:
    """Return one minus the mean cosine."""
    return (1 - (found * wanted).sum(1)).mean()


def advance(encoder: Encoder, optimizer: torch.optim.Optimizer, loss: Tensor, rates: Sequence[float]) -> None:
    """Change the weights by one step, each group of them at its rate."""
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
    optimizer.step()


def split_parameters(encoder: Encoder) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Return the parameters of the word pieces, and all others but those of `need`."""
    others = [one for name, one in encoder.named_parameters() if not name.startswith(("words", "need"))]
    return [encoder.words.weight], others


def batches_of(places: Sequence[int], texts: Texts) -> list[list[int]]:
    """Return random batches of pairs, of similar lengths."""
    order = list(np.random.permutation(places))
    found = []
    for start in range(0, len(order), 16 * BATCH):
        part = sorted(order[start : start + 16 * BATCH], key=lambda i: len(texts.translated[i]))
        found += [part[i : i + BATCH] for i in range(0, len(part), BATCH)]
    random.shuffle(found)
    return found


def train_translations(base: Encoder, encoder: Encoder, texts: Texts, steps: int | None) -> None:
    """Give translations the vectors of their English texts; English texts and passages keep theirs."""
    wanted, passages = encode_all(base, texts.english), encode_all(base, texts.passages)
    held = set(np.random.RandomState(1).choice(len(wanted), min(HELD_BACK, len(wanted) // 10), replace=False))
    places = [i for i in range(len(wanted)) if i not in held]
    words, others = split_parameters(encoder)
    optimizer = torch.optim.AdamW([{"params": words}, {"params": others}], weight_decay=0.0)
    total = steps or max(1, int(len(places) / BATCH * ROUNDS))
    batches: list[list[int]] = []
    encoder.train()
    for step in range(total):
        batches = batches or batches_of(places, texts)
        batch = batches.pop()
        share = max(1, len(batch) // 4)
        some = np.random.randint(0, len(passages), share)
        rows = [texts.translated[i] for i in batch] + [texts.english[i] for i in batch[:share]]
        found = encode(encoder, rows + [texts.passages[i] for i in some])
        translated, english, passage = found.split([len(batch), share, share])
        same = wanted[batch]
        right = torch.arange(len(batch), device=DEVICE)
        loss = 8 * distance(translated, same) + 0.3 * functional.cross_entropy(
            20 * translated @ same.T, right
        )
        loss = loss + 4 * distance(english, same[:share]) + 4 * distance(passage, passages[some])
        pace = min(1, (step + 1) / WARM_UP) * max(0.03, 1 - step / total)
        advance(encoder, optimizer, loss, (WORDS_RATE * pace, OTHERS_RATE * pace))
    encoder.eval()
    test = sorted(held)
    ours = encode_all(encoder, [texts.translated[i] for i in test])
    nearest = (ours @ wanted[test].T).argmax(1).cpu().numpy() == np.arange(len(test))
    for number, language in enumerate(LANGUAGES):
        own = nearest[texts.languages[test] == number]
        print(f"{language}: {own.mean() if len(own) else 0:.1%} of {len(own)} find their English text")


class NoteBatch:
    """Memories and messages of a few people: rows to encode, and which memory which message needs."""

    def __init__(self, people: Sequence[dict[str, Any]], chance: random.Random) -> None:
        self.memories: list[Row] = []
        self.segments: list[Row] = []
        self.first: list[int] = []
        """The place of each message's first segment."""
        owners, owner_of_message, message_of_segment, idle = [], [], [], []
        right: list[tuple[int, int]] = []
        left_out: list[tuple[int, int]] = []
        for person in chance.sample(people, min(PEOPLE_AT_ONCE, len(people))):
            start = len(self.memories)
            self.memories += [thinned(one[:MAX_NOTE], chance) for one in person["memories"]]
            owners += [start] * len(person["memories"])
            asked = person["messages"]
            for message in chance.sample(asked, min(MESSAGES_AT_ONCE, len(asked))):
                number = len(self.first)
                self.first.append(len(self.segments))
                self.segments += [thinned(one, chance) for one in message["segments"]]
                message_of_segment += [number] * len(message["segments"])
                owner_of_message.append(start)
                idle.append(not message["needed"])
                right += [(number, start + place) for place in message["needed"]]
                left_out += [(number, start + place) for place in message["left_out"]]
        self.message_of_segment = torch.tensor(message_of_segment, device=DEVICE)
        self.idle = torch.tensor(idle, device=DEVICE)
        self.own = torch.tensor(owner_of_message, device=DEVICE)[:, None] == torch.tensor(
            owners, device=DEVICE
        )
        self.right, self.left_out = self._marked(right), self._marked(left_out)

    def _marked(self, places: list[tuple[int, int]]) -> Tensor:
        found = torch.zeros(len(self.first), len(self.memories), dtype=torch.bool, device=DEVICE)
        if places:
            at = torch.tensor(places, device=DEVICE)
            found[at[:, 0], at[:, 1]] = True
        return found

    def loss(self, segments: Tensor, memories: Tensor, scale: Tensor, none: Tensor) -> Tensor:
        """Return how unlikely the needed memory is among a person's, and among all, by its best segment.

        A message that needs none has to be nearer to `none` than to any memory.
        """
        similar = segments @ memories.T
        best = torch.full((len(self.first), len(memories)), -2.0, device=DEVICE).scatter_reduce(
            0, self.message_of_segment[:, None].expand(-1, len(memories)), similar, "amax"
        )
        odds = scale * best.masked_fill(self.left_out, -9.0)
        no_note = (scale * none).expand(len(odds), 1)
        right = torch.logsumexp(odds.masked_fill(~self.right, _OUT), 1)
        right = torch.where(self.idle, no_note[:, 0], right)
        among_own = torch.logsumexp(torch.cat([odds.masked_fill(~self.own, _OUT), no_note], 1), 1) - right
        among_all = torch.logsumexp(torch.cat([odds, no_note], 1), 1) - right
        return among_own.mean() + 0.2 * among_all[~self.idle].mean()


def thinned(row: Row, chance: random.Random) -> Row:
    """Return a row without some of its pieces, never the first or the last one."""
    if len(row) < 7:
        return row
    return [one for i, one in enumerate(row) if i in (0, len(row) - 1) or chance.random() > DROP]


class Kept:
    """What the training on people must not change: the vectors of pairs and passages."""

    def __init__(self, encoder: Encoder, texts: Texts) -> None:
        self.texts = texts
        self.english = encode_all(encoder, texts.english)
        self.passages = encode_all(encoder, texts.passages)
        self.chance = np.random.RandomState(0)

    def draw(self) -> tuple[list[Row], Callable[[Tensor], Tensor]]:
        """Return rows to encode, and the loss of their vectors."""
        size = KEPT_AT_ONCE
        pairs = self.chance.randint(0, len(self.english), 2 * size)
        some = self.chance.randint(0, len(self.passages), size)
        rows = [self.texts.translated[i] for i in pairs[:size]]
        rows += [self.texts.english[i] for i in pairs[size:]]
        rows += [self.texts.passages[i] for i in some]
        wanted = torch.cat([self.english[pairs], self.passages[some]])
        return rows, lambda found: 3 * distance(found, wanted)


def train_notes(
    start: Encoder, people: list[Any], messages: list[Any], kept: Kept, steps: int | None
) -> Encoder:
    """Return an encoder that puts a message near the notes it needs, and tells whether it needs any."""
    chance = random.Random(0)
    torch.manual_seed(0)
    kept.chance = np.random.RandomState(0)
    encoder = Encoder(start.words.num_embeddings).to(DEVICE)
    encoder.load_state_dict(start.state_dict())
    encoder.drop = DROP
    encoder.train()
    scale = nn.Parameter(torch.tensor(math.log(18.0), device=DEVICE))
    none = nn.Parameter(torch.tensor(0.34, device=DEVICE))
    groups = [*split_parameters(encoder), list(encoder.need.parameters()), [scale, none]]
    optimizer = torch.optim.AdamW([{"params": one} for one in groups], weight_decay=0.01)
    asked = sum(len(one["messages"]) for one in people)
    total = steps or max(2, int(NOTE_ROUNDS * asked / (PEOPLE_AT_ONCE * MESSAGES_AT_ONCE)))
    for step in range(total):
        batch = NoteBatch(people, chance)
        extra = chance.sample(messages, NEEDS_AT_ONCE)
        rows, loss_of_kept = kept.draw()
        memories, segments = encode(encoder, batch.memories), encode(encoder, batch.segments)
        others = encode(encoder, rows + [row for row, _ in extra])
        need = encoder.need(torch.cat([segments[batch.first], others[len(rows) :]]) * float(_NEED_SCALE))
        needs = torch.cat([~batch.idle, torch.tensor([bool(one) for _, one in extra], device=DEVICE)])
        loss = batch.loss(segments, memories, scale.exp(), none) + 2 * loss_of_kept(others[: len(rows)])
        loss = loss + 0.3 * functional.binary_cross_entropy_with_logits(need[:, 0], needs.float())
        pace = min(1, (step + 1) / NOTE_WARM_UP) * max(0.03, 1 - step / total)
        advance(encoder, optimizer, loss, [pace * r for r in (NOTE_RATE, NOTE_RATE, NEED_RATE, SCALE_RATE)])
    encoder.eval()
    return encoder


@torch.no_grad()
def vectors_of(encoder: Encoder, person: dict[str, Any]) -> dict[str, Any]:
    """Return the vectors and needs that `bench.recall.everyday.train` reads."""
    memories = encode_all(encoder, person["memories"])
    segments = encode_all(encoder, [row for one in person["messages"] for row in one["segments"]])
    whole = encode_all(encoder, [one["segments"][0] for one in person["messages"]])
    need = encoder.need(whole * float(_NEED_SCALE))[:, 0]
    found = {"mem": memories, "seg": segments, "need": need}
    return {f"{person['key']}.{name}": one.cpu().numpy().astype(np.float16) for name, one in found.items()}


def main(step: str, work: Path, steps: int | None) -> None:
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    torch.set_float32_matmul_precision("high")
    pieces = len((work / "vocabulary.txt").read_text(encoding="utf-8").splitlines())
    if step == "translations":
        base = _Tensors(work / "base.safetensors")
        encoder = from_base(base, pieces).to(DEVICE)
        train_translations(from_base(base, pieces).to(DEVICE), encoder, Texts(work), steps)
        write_encoder(encoder, work / TRANSLATIONS_FILE)
        return
    start = read_encoder(work / TRANSLATIONS_FILE, pieces).eval()
    kept = Kept(start, Texts(work, KEPT_PAIRS))
    with gzip.open(work / "people.json.gz", "rt", encoding="utf-8") as file:
        found = json.load(file)
    people, messages = (
        sorted(found["people"], key=lambda one: (one["language"], one["key"])),
        found["messages"],
    )
    if step == "notes":
        write_encoder(train_notes(start, people, messages, kept, steps), work / NOTES_FILE)
        return
    vectors: dict[str, Any] = {}
    for group in range(GROUPS):
        others = [one for number, one in enumerate(people) if number % GROUPS != group]
        encoder = train_notes(start, others, messages, kept, steps)
        for person in people[group::GROUPS]:
            vectors |= vectors_of(encoder, person)
    np.savez(work / LEFT_OUT_FILE, **vectors)


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("translations", "notes", "left-out"):
        raise SystemExit(
            "usage: python -m bench.recall.encoder.train translations|notes|left-out WORK [STEPS]"
        )
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if sys.argv[3:] else None)
