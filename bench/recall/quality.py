"""Runs every set against every ranker and gathers the figures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.recall import chats, letta, made_up, mem0_peer, promises, talks
from bench.recall.asking import Row, Tools, elsewhere, hold, one_by_one, own
from bench.recall.dense import Vectors, can_embed
from bench.recall.everyday.measure import measure_people
from bench.recall.everyday.people import own_people, shared_people
from bench.recall.figures import newer_first, nothing_relevant, quality
from bench.recall.peers import available, is_left_out
from bench.recall.schema import Store
from bench.recall.shown import measure as measure_shown
from nacre.messages.blocks import JsonObject

DATA = Path(__file__).parents[3] / "shared" / "data"
Load = Callable[[Path], list[Store]]


@dataclass(frozen=True)
class Sizes:
    """What to run."""

    data: Path | None
    """The folder of the public sets; none for the made-up stores."""


FULL = Sizes(DATA)
TINY = Sizes(None)

HELD: dict[str, tuple[str, Load]] = {
    "locomo_turns": ("locomo", talks.turns),
    "locomo_sessions": ("locomo", talks.sessions),
    "letta_files": ("letta_filesystem", letta.files),
    "beam_messages": ("beam", chats.beam),
    "longmemeval_merged": ("longmemeval", chats.longmemeval_merged),
}
STREAMED: dict[str, tuple[str, Load]] = {
    "letta_updates": ("letta_filesystem", letta.updates),
    "longmemeval_s": ("longmemeval", chats.longmemeval_s),
}
FOREIGN = {
    "locomo_turns": "locomo_turns",
    "beam_messages": "beam_messages",
    "longmemeval_merged": "beam_messages",
    "made_up": "made_up",
}
"""Whose stores a set's questions are put to, to see what is attached when nothing answers."""
EVERYDAY_PEERS = ("bm25s", "tantivy", "minilm", "agent_framework")
UPDATES = ("letta_updates", "beam_messages", "made_up")


def measure(sizes: Sizes) -> JsonObject:
    """The figures of one run; a line that says why, where there is nothing to run on."""
    if sizes.data is not None and not (sizes.data / "locomo").is_dir():
        return {"skipped": f"there is no data in {sizes.data}"}
    states = available()
    states["mem0"] = _mem0_state(states["minilm"])
    vectors = Vectors() if can_embed() and sizes.data is not None else None
    names = tuple(n for n, s in states.items() if n != "mem0" and not is_left_out(s))
    tools = Tools(names, vectors, not is_left_out(states["mem0"]))
    own_rows, foreign_rows = _rows(sizes, tools)
    sets: JsonObject = {name: quality(rows) for name, rows in own_rows.items()}
    nothing: JsonObject = {
        name: nothing_relevant(own_rows[name], rows) for name, rows in foreign_rows.items()
    }
    newer: JsonObject = {name: newer_first(own_rows[name]) for name in UPDATES if name in own_rows}
    people = shared_people(sizes.data / "everyday") if sizes.data else [own_people()[0]]
    peers = [one for one in names if one in EVERYDAY_PEERS]
    everyday = measure_people(people, vectors, [*peers, "mem0"] if tools.has_mem0 else peers)
    shown = measure_shown(sizes.data) if sizes.data else {}
    return {
        "peers": dict(states),
        "sets": sets,
        "nothing_relevant": nothing,
        "newer_first": newer,
        "everyday": everyday,
        "evidence_shown": shown,
        "bars": [*promises.bars(sets, nothing, newer), *promises.everyday_bars(everyday, shown)],
    }


def _rows(sizes: Sizes, tools: Tools) -> tuple[dict[str, list[Row]], dict[str, list[Row]]]:
    if sizes.data is None:
        sources: dict[str, list[Store]] = {"made_up": made_up.stores()}
    else:
        sources = {}
    found: dict[str, list[Row]] = {}
    foreign: dict[str, list[Row]] = {}
    with ExitStack() as stack:
        held = {}
        for name in sources or HELD:
            stores = sources.get(name) or _load(sizes.data, *HELD[name])
            held[name] = hold(stores, tools, stack)
            found[name] = own(held[name])
            if name in FOREIGN:
                foreign[name] = elsewhere(held[name], held[FOREIGN[name]])
            _tell(name, found[name])
    for name, source in STREAMED.items() if sizes.data else ():
        found[name] = list(one_by_one(_load(sizes.data, *source), tools))
        _tell(name, found[name])
    return found, foreign


def _load(data: Path | None, folder: str, load: Load) -> list[Store]:
    assert data is not None
    return load(data / folder)


def _tell(name: str, rows: list[Row]) -> None:
    print(f"  {name}: {len(rows)} questions", file=sys.stderr, flush=True)


def _mem0_state(minilm: str) -> str:
    if is_left_out(minilm) or not mem0_peer.is_installed():
        return "skipped: mem0 or its vectors not installed"
    return f"{mem0_peer.version()}, on {' and '.join(n for n in mem0_peer.SETS if n != 'made_up')} only"
