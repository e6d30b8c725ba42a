"""How long importing and folding a folder of real sessions takes; nothing is measured where there is none."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from nacre.inspect.import_sessions import ImportDestination, import_file
from nacre.messages.blocks import JsonObject
from nacre.messages.jsonl import decode
from nacre.messages.view import View
from nacre.store.lines import read_lines

FOLDER = Path(__file__).parents[2] / "shared" / "data" / "claude_code_sessions"
"""Beside the repository, never in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    most_files: int | None = None


FULL = Sizes()
TINY = Sizes(most_files=2)


def measure(sizes: Sizes = FULL, *, folder: Path = FOLDER) -> JsonObject:
    files = sorted(folder.rglob("*.jsonl.gz"))[: sizes.most_files]
    if not files:
        return {"skipped": "there is no folder of real sessions beside the repository"}
    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as home:
        place = ImportDestination(home=Path(home), here=Path(home))
        begun = time.perf_counter()
        # As `nacre sessions import` does it: unpacked, recognised, checked, written whole and synced.
        logs = [one.path for path in files for one in import_file(path, place)]
        imported = time.perf_counter()
        loaded = [decode(read_lines(path), session_id=path.stem) for path in logs]
        decoded = time.perf_counter()
        views = [View.of(one.records) for one in loaded]
        folded = time.perf_counter()
        size = sum(path.stat().st_size for path in set(logs))
    records = sum(len(one.records) for one in loaded)
    return {
        "files": len(files),
        "sessions": len(logs),
        "bytes": size,
        "records": records,
        "messages": sum(len(view.messages) for view in views),
        "import_seconds": round(imported - begun, 3),
        "decode_seconds": round(decoded - imported, 3),
        "fold_seconds": round(folded - decoded, 3),
        "import_us_per_record": round((imported - begun) / records * 1e6, 1),
        "decode_us_per_record": round((decoded - imported) / records * 1e6, 1),
        "fold_us_per_record": round((folded - decoded) / records * 1e6, 1),
        "bars": [],
    }
