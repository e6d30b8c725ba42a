"""What is wrong with the words of a memory store, whoever wrote it, and how good it is as a whole (M8-M16c).

Reads a memory folder, a packed one, a note, or an export of mem0; changes nothing. Blocking.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.memory.audit_findings import LEVELS, AuditFinding, Level
from nacre.memory.audit_folder import folder_findings, index_findings
from nacre.memory.audit_items import Item, items_in
from nacre.memory.audit_junk import junk_in
from nacre.memory.audit_pairs import repeated
from nacre.memory.audit_text import text_findings
from nacre.memory.import_sources import Batch, read_batch
from nacre.memory.pointers import INDEX_FILE
from nacre.memory.recall.base import Drift
from nacre.memory.recall.drift import check_each

DRIFT_SECONDS = 2.0
"""For all memories together: somebody waits, but may wait longer than a turn does; the rest is not judged."""
WEIGHTS: Mapping[Level, float] = {"error": 3.0, "warning": 1.0, "info": 0.25}
"""How many sound memories one finding outweighs: a leaked key more than a long line."""
NOTHING_GONE = Drift()


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What was found in one store."""

    path: str
    memories: int
    findings: tuple[AuditFinding, ...]
    """By file and line."""
    sound: int
    """Memories that no finding is about."""
    tree: str = ""
    """The working tree that references were looked for in; empty when there was none."""

    @property
    def score(self) -> int:
        """0 to 100: sound memories against weighted findings; to put one right never lowers it.

        100 x (sound + 1) / (sound + 1 + weights), rounded down. A memory put right or removed takes its
        weight away and no other memory's soundness, so that the share can only grow; 100 means nothing found.
        """
        sound = self.sound + 1
        return int(100 * sound / (sound + sum(WEIGHTS[one.level] for one in self.findings)))

    @property
    def counts(self) -> Mapping[str, int]:
        """How many findings of each kind, the most frequent first."""
        return dict(Counter(one.kind for one in self.findings).most_common())

    def at_least(self, level: Level) -> tuple[AuditFinding, ...]:
        """What is as bad as this, or worse."""
        return tuple(one for one in self.findings if LEVELS.index(one.level) <= LEVELS.index(level))


def audit(path: Path, *, tree: Path | None = None, clock: Clock = SYSTEM_CLOCK) -> Audit:
    """Look through a store; references are looked for in the working tree, if one is given."""
    if path.is_dir():
        return _audited(path, items_in(path), path, tree=tree, clock=clock)
    batch = read_batch(path)
    if batch.facts or path.suffix == ".md":
        return _audited(path, items_in(batch), None, tree=tree, clock=clock)
    with tempfile.TemporaryDirectory(prefix="nacre-audit-") as scratch:
        folder = _unpacked(batch, Path(scratch))
        return _audited(path, items_in(folder), folder, tree=tree, clock=clock)


def _audited(
    path: Path, items: Sequence[Item], folder: Path | None, *, tree: Path | None, clock: Clock
) -> Audit:
    found: list[AuditFinding] = []
    if folder:
        found += [*folder_findings(folder, items), *index_findings(folder)]
    for item, drift in zip(items, _drifts(items, tree, clock), strict=True):
        found += text_findings(item, drift)
        found += junk_in(item)
    found += repeated(items)
    blamed = {file for one in found for file in (one.file, *one.others)}
    return Audit(
        path=str(path),
        memories=len(items),
        findings=tuple(sorted(set(found), key=lambda one: (one.file, one.line, one.kind, one.message))),
        sound=sum(item.file not in blamed for item in items),
        tree=str(tree) if tree else "",
    )


def _drifts(items: Sequence[Item], tree: Path | None, clock: Clock) -> Iterable[Drift]:
    if tree is None:
        return [NOTHING_GONE] * len(items)
    bodies = [item.entry.body for item in items]
    return check_each(bodies, tree, budget_seconds=DRIFT_SECONDS, clock=clock)


def _unpacked(batch: Batch, scratch: Path) -> Path:
    """A packed folder as a real one; the names were found harmless when it was read."""
    files = {one.file: one.data for one in batch.files}
    if batch.index is not None:
        files[INDEX_FILE] = batch.index
    for file, data in files.items():
        target = scratch / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return scratch
