"""The files and questions that speed is measured on: pieces of real talks, or made-up ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

from bench.recall import chats, made_up
from bench.recall.schema import Store
from nacre.memory.recall.ranking.analysis import Doc, pieces

FOLDERS = 500
"""Files in one folder, so that none grows without bound."""
QUESTIONS = 200
TITLE_WORDS = 4


def texts(data: Path | None) -> Iterator[str]:
    """One after the other, as long as they last; made-up ones never end."""
    if data is None:
        facts = [doc.body for store in made_up.stores() for doc in store.docs]
        yield from (f"Note {number}. {facts[number % len(facts)]}" for number in count())
    else:
        (store,) = chats.longmemeval_merged(data / "longmemeval")
        yield from (text for doc in store.docs for _, text in pieces(doc))


def questions(data: Path | None) -> list[str]:
    """Of several sets, in a fixed order that mixes them."""
    if data is None:
        return [question.text for store in made_up.stores() for question in store.questions]
    stores = [*chats.beam(data / "beam")[:6], *chats.longmemeval_merged(data / "longmemeval")]
    asked = sorted({question.text for store in stores for question in store.questions}, key=lambda t: t[::-1])
    return asked[:: max(1, len(asked) // QUESTIONS)][:QUESTIONS]


def write(directory: Path, data: Path | None, size: int) -> int:
    """So many memory files; how many there were texts for."""
    written = 0
    for number, text in enumerate(islice(texts(data), size)):
        folder = directory / f"part-{number // FOLDERS:03}"
        if number % FOLDERS == 0:
            folder.mkdir(parents=True)
        title = " ".join(text.split()[:TITLE_WORDS]).replace(":", "")
        head = f"---\nname: {title}\ndescription: {title}\ntype: project\n---\n\n"
        (folder / f"note_{number}.md").write_text(f"{head}{text}\n", encoding="utf-8")
        written += 1
    return written


def store(data: Path | None, size: int) -> Store:
    """The same for the peers, who have no files."""
    docs = (Doc(id=str(number), body=text) for number, text in enumerate(islice(texts(data), size)))
    return Store(f"speed/{size}", tuple(docs), ())
