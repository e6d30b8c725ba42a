"""Every policy over every recording, in two processes: a row for each policy in each cell of the table."""

from __future__ import annotations

import importlib.metadata
import os
import pickle
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.replay.settings import OURS, PEERS, REFERENCES
from nacre.devtools.replay.run import Replayed, ReplayTerms, Study, replay_one
from nacre.devtools.replay.schema import Maker, PolicyTotals, Recorded
from nacre.messages.blocks import JsonObject

PROCESSES = min(2, os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class Cell:
    """One part of the table."""

    model: str
    window: int
    sessions: str = "recorded"
    most_base: int | None = None
    """Tokens of a larger base that count; None: all."""
    policies: tuple[str, ...] = ()
    """Which; none means all."""

    @property
    def title(self) -> str:
        base = "" if self.most_base is None else f", base at most {self.most_base // 1000}K"
        return f"{self.sessions}, {self.window // 1000}K, {self.model}{base}"


@dataclass(frozen=True, slots=True)
class Row:
    """One policy in one cell."""

    policy: str
    tally: PolicyTotals
    cost_of_each: dict[str, float]
    """Input side of each session, in USD."""

    def figures(self, none_usd: float) -> JsonObject:
        """Return the row's figures; `none_usd` is the input side of append-only."""
        tally, used, gone = self.tally, self.tally.used, self.tally.refused
        own = tally.requests - tally.sides - tally.refetches
        cpu = sorted(tally.cpu_seconds) or [0.0]
        usable_pairs = _percent(used.pairs_kept - gone.pairs_kept, used.pairs)
        mean = tally.view_tokens / max(1, own)
        return {
            "policy": self.policy,
            "cost_usd": round(tally.cost_usd, 2),
            "input_usd": round(tally.input_usd, 2),
            "of_append_only": round(tally.input_usd / none_usd, 4) if none_usd else None,
            "hit_rate": round(tally.usage.hit_rate, 4),
            "requests": own,
            "peak_tokens": tally.peak_tokens,
            "mean_tokens": round(mean),
            "overflow": tally.overflow,
            "refused": tally.invalid,
            "compactions": tally.compactions,
            "prefix_breaks": tally.prefix_breaks,
            "unannounced": tally.unannounced,
            "usable_pairs": usable_pairs,
            "usable_edits": _percent(used.edits_kept - gone.edits_kept, used.edits),
            "usable_old": _percent(used.old_kept - gone.old_kept, used.old),
            "pairs": _percent(used.pairs_kept, used.pairs),
            "edits": _percent(used.edits_kept, used.edits),
            "identifiers": _percent(used.identifiers_kept, used.identifiers),
            "old": _percent(used.old_kept, used.old),
            "pairs_per_1000_tokens": round(usable_pairs / mean * 1000, 3) if mean else None,
            "refetch_usd": round(tally.refetch_usd, 2),
            "side_usd": round(tally.side_usd, 2),
            "cpu_ms_p50": round(cpu[len(cpu) // 2] * 1000, 3),
            "cpu_ms_p99": round(cpu[int(len(cpu) * 0.99)] * 1000, 3),
        }


def peers() -> dict[str, str]:
    """Which libraries are there, with their versions."""
    found: dict[str, str] = {}
    for one in PEERS:
        try:
            found[one.name] = f"{one.package} {importlib.metadata.version(one.package)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def makers() -> dict[str, Maker]:
    """Every policy by its name; a library that is not installed is left out."""
    there = peers()
    found: dict[str, Maker] = {one.name: one for one in (*REFERENCES, *OURS)}
    return found | {one.name: one.peer for one in PEERS if one.name in there}


def rows(cells: Iterable[Cell], sessions: dict[str, Sequence[Recorded]]) -> dict[Cell, dict[str, Row]]:
    """Everything, two at a time; what is done is told."""
    tasks = [(cell, name) for cell in cells for name in cell.policies or makers()]
    table: dict[Cell, dict[str, Row]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sessions"
        path.write_bytes(pickle.dumps(sessions))
        with ProcessPoolExecutor(PROCESSES, initializer=_begin, initargs=(str(path),)) as pool:
            for done, (cell, row) in enumerate(pool.map(_row, tasks), 1):
                table.setdefault(cell, {})[row.policy] = row
                print(
                    f"\r{done} of {len(tasks)}: {cell.title}, {row.policy}".ljust(100),
                    end="",
                    file=sys.stderr,
                )
    print(file=sys.stderr)
    return table


_path: list[str] = []


def _begin(path: str) -> None:
    _path[:] = [path]


@cache
def _studies(name: str) -> list[Study]:
    """What is the same for every policy, once in each process."""
    sessions: dict[str, Sequence[Recorded]] = pickle.loads(Path(_path[0]).read_bytes())
    return [Study(one) for one in sessions[name]]


def _row(task: tuple[Cell, str]) -> tuple[Cell, Row]:
    cell, name = task
    terms = ReplayTerms(model=cell.model, window=cell.window, most_base=cell.most_base)
    maker = makers()[name]
    done: list[Replayed] = [replay_one(study, maker, terms) for study in _studies(cell.sessions)]
    total = PolicyTotals()
    for one in done:
        total += one.tally
    return cell, Row(name, total, {one.session: one.tally.input_usd for one in done})


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 2) if whole else 100.0
