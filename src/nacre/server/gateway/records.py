"""What the gateway saw, one line of JSON per request in a file per month; without text or keys (G2)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from nacre.errors import StoreError
from nacre.messages.blocks import JsonObject
from nacre.store import disk

FOLDER = "gateway"
MONTH_CHARS = len("2026-11")


class RecordFile:
    """Appends to the file of the month; a line is complete or, after a crash, left out on reading."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER

    def append(self, record: JsonObject) -> None:
        """Append one record, which has its time in `at`."""
        path = self._folder / f"{str(record['at'])[:MONTH_CHARS]}.jsonl"
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode(errors="replace") + b"\n"
        append(path, line)


def refreshes_usd(home: Path, day: date) -> float:
    """Return what the refreshes of a day cost."""
    name = day.isoformat()
    costs = (
        one.get("cost_usd")
        for one in read_records(home, name[:MONTH_CHARS])
        if one.get("kind") == "refresh" and str(one.get("at")).startswith(name)
    )
    return sum(float(usd) for usd in costs if isinstance(usd, int | float))


def append(path: Path, lines: bytes) -> None:
    """Append whole lines to a file and create it and its folder if necessary; raises `StoreError`."""
    try:
        disk.make_folder(path.parent)
        descriptor = disk.open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            disk.append_lines(descriptor, lines)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreError(disk.explain(error, path)) from error


def read_records(home: Path, month: str = "*") -> Iterator[JsonObject]:
    """Yield all complete records, of a month such as `2026-11` or of all of them, oldest first."""
    for path in sorted((home / FOLDER).glob(f"{month}.jsonl")):
        try:
            with path.open("rb") as file:
                for line in file:
                    try:
                        record = json.loads(line)
                    except ValueError:  # torn by a crash
                        continue
                    if isinstance(record, dict) and isinstance(record.get("session"), str):
                        yield record
        except OSError as error:
            raise StoreError(disk.explain(error, path)) from error
