"""The usefulness ledger: no line is lost to other processes or damage, and no word of a memory is in it."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.memory.files.location import Location
from nacre.memory.format.entry import Entry, MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.memory.purge.memory import erase
from nacre.memory.recall import usage
from nacre.memory.recall.base import AttachedMemory, LeftOut, LeftOutReason, RankedMemory, Recalled
from nacre.memory.recall.usage import (
    MemoryUsage,
    UsageEvent,
    digest,
    events_of,
    forget_usage,
    read_tallies,
    read_usage,
    record,
)
from nacre.messages.tokens import estimate_text

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WRITER = """
import asyncio, sys
from datetime import UTC, datetime
from pathlib import Path
from nacre.memory.files.location import Location
from nacre.memory.recall import usage
usage.FOLD_BYTES = 2_000  # so that every process folds while the others write
top = Path(sys.argv[1])
location = Location(directory=top / "memory", source="user", history=top / "h", cache=top / "cache")
for _ in range(int(sys.argv[2])):
    at = datetime(2026, 3, 1, tzinfo=UTC)
    asyncio.run(usage.record(location, [usage.UsageEvent(file="tea.md", kind="attached", at=at, tokens=3)]))
"""


@pytest.fixture
def location(tmp_path: Path) -> Location:
    directory = tmp_path / "memory"
    directory.mkdir()
    for name in ("tea.md", "hopper.md"):
        (directory / name).write_text("x")
    return Location(directory=directory, source="user", history=tmp_path / "h", cache=tmp_path / "cache")


def ledger(location: Location) -> Path:
    return location.cache / "usage" / "ledger.jsonl"


def picked(location: Location, file: str, text: str = "some words of it") -> AttachedMemory:
    ranked = RankedMemory(entry=Entry(file=file), directory=location.directory, score=1.0, confidence=1.0)
    return AttachedMemory(ranked=ranked, text=text, age_days=0, bytes=len(text))


async def test_what_was_recorded_is_added_up_by_file(location: Location) -> None:
    await record(
        location,
        [
            UsageEvent(file="tea.md", kind="offered", at=NOW),
            UsageEvent(file="hopper.md", kind="offered", at=NOW),
            UsageEvent(file="tea.md", kind="attached", at=NOW, tokens=40),
        ],
    )
    later = NOW + timedelta(days=1)
    await record(location, [UsageEvent(file="tea.md", kind="cited", at=later)])
    await record(location, [UsageEvent(file="tea.md", kind="contradicted", at=NOW)])
    tea = MemoryUsage(file="tea.md", offered=1, attached=1, cited=1, contradicted=1, tokens=40, last=later)
    assert read_usage(location) == {
        "tea.md": tea,
        "hopper.md": MemoryUsage(file="hopper.md", offered=1, last=NOW),
    }
    assert read_usage(location, ["tea.md", "gone.md"]) == {"tea.md": tea}


async def test_the_ledger_is_its_owners_and_holds_neither_words_nor_names(location: Location) -> None:
    """M14b, M27."""
    await record(location, [UsageEvent(file="hopper.md", kind="attached", at=NOW, tokens=9)])
    assert b"hopper" not in ledger(location).read_bytes()
    for path in ledger(location).parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(ledger(location).parent.stat().st_mode) == 0o700


async def test_nothing_to_count_writes_nothing(location: Location) -> None:
    await record(location, [])
    assert read_usage(location) == {}
    assert not location.cache.exists()


@pytest.mark.parametrize(
    "damage",
    [
        b"\0\xff garbage\n",
        b'{"at": "yesterday", "of": "x"}\n[1]\n"text"\n{"of": 3, "at": "2026-01-01"}\n',
        b'{"at": "2026-03-01T00:00:00+00:00", "of": "torn',
        b'{"at": "0001-01-01T00:00:00+14:00", "of": "x"}\n',
        b"[" * 100_000 + b"\n",
    ],
)
async def test_damaged_lines_are_skipped_and_the_next_ones_count(location: Location, damage: bytes) -> None:
    await record(location, [UsageEvent(file="tea.md", kind="offered", at=NOW)])
    with ledger(location).open("ab") as file:
        file.write(damage)
    await record(location, [UsageEvent(file="tea.md", kind="offered", at=NOW)])
    assert read_usage(location)["tea.md"].offered == 2


async def test_counts_that_are_no_counts_are_nothing(location: Location) -> None:
    ledger(location).parent.mkdir(parents=True)
    line = {"at": NOW.isoformat(), "of": digest("tea.md"), "offered": -5, "cited": "2", "attached": True}
    ledger(location).write_text(json.dumps(line) + "\n")
    assert read_usage(location)["tea.md"] == MemoryUsage(file="tea.md", last=NOW)


async def test_a_ledger_that_cannot_be_written_stops_nothing(location: Location) -> None:
    ledger(location).parent.mkdir(parents=True)
    os.mkfifo(ledger(location))
    await record(location, [UsageEvent(file="tea.md", kind="offered", at=NOW)])
    assert read_usage(location) == {}
    forget_usage(location.cache, "tea.md")


@pytest.mark.slow
def test_several_processes_lose_no_line_although_all_of_them_fold(location: Location, tmp_path: Path) -> None:
    started = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), "60"]) for _ in range(3)]
    assert [each.wait() for each in started] == [0, 0, 0]
    assert read_usage(location)["tea.md"] == MemoryUsage(
        file="tea.md", attached=180, tokens=540, last=datetime(2026, 3, 1, tzinfo=UTC)
    )
    assert ledger(location).stat().st_size < 6_000


async def test_a_large_ledger_is_folded_by_file_and_day_and_old_days_together(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = [NOW - timedelta(days=n) for n in (0, 0, 1, 500, 600)]
    for at in days:
        await record(location, [UsageEvent(file="tea.md", kind="attached", at=at, tokens=2)])
    before = read_usage(location)
    monkeypatch.setattr(usage, "FOLD_BYTES", 10)
    await record(location, [UsageEvent(file="hopper.md", kind="offered", at=NOW)])
    assert [one.attached for one in read_tallies(location.cache) if one.of == digest("tea.md")] == [2, 1, 2]
    assert {**read_usage(location)} == {
        **before,
        "hopper.md": MemoryUsage(file="hopper.md", offered=1, last=NOW),
    }


async def test_a_folded_ledger_is_folded_again_only_when_it_has_doubled(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "FOLD_BYTES", 10)
    many = [UsageEvent(file=f"{n}.md", kind="offered", at=NOW) for n in range(50)]
    for _ in range(2):
        await record(location, many)
    folded = ledger(location).stat().st_ino
    await record(location, many[:1])
    await record(location, many[:1])
    assert ledger(location).stat().st_ino == folded


_events = st.lists(
    st.tuples(
        st.sampled_from(["a.md", "b/c.md", "é.md"]),
        st.sampled_from(usage.COUNTS),
        st.integers(0, 900),
        st.integers(0, 50),
    ),
    max_size=30,
)


@given(_events)
def test_folding_changes_no_sum(events: list[tuple[str, usage.EventKind, int, int]]) -> None:
    tallies = [
        usage.UsageCount(of=digest(file), at=NOW - timedelta(days=days), tokens=tokens, **{kind: 1})
        for file, kind, days, tokens in events
    ]

    def sums(of: list[usage.UsageCount]) -> dict[str, usage.UsageCount]:
        total: dict[str, usage.UsageCount] = {}
        for one in of:
            total[one.of] = total[one.of] + one if one.of in total else one
        return total

    assert sums(usage._merged(tallies, (NOW - timedelta(days=400)).date()).values()) == sums(tallies)
    assert [usage._parsed(usage._line(one)) for one in tallies] == tallies


def passed(location: Location, file: str, why: LeftOutReason) -> LeftOut:
    return LeftOut(file, why, path=location.directory / file)


def test_what_was_picked_passed_over_or_below_the_cut_counts_differently(location: Location) -> None:
    """R10: offered is what stood above the cut or in the manifest."""
    pick = picked(location, "tea.md")
    elsewhere = replace(pick, ranked=replace(pick.ranked, directory=location.directory / "team"))
    recalled = Recalled(
        query="tea?",
        picks=(pick, elsewhere),
        left_out=(
            passed(location, "hopper.md", "not chosen"),
            passed(location, "hopper.md", "beyond five"),
            passed(location, "tea.md", "budget"),
            LeftOut.of(elsewhere.ranked, "beyond five"),
            passed(location, "low.md", "below the cut-off"),
            passed(location, "seen.md", "already seen"),
        ),
    )
    assert events_of(recalled, location, NOW) == [
        UsageEvent(file="tea.md", kind="offered", at=NOW),
        UsageEvent(file="hopper.md", kind="offered", at=NOW),
        UsageEvent(file="tea.md", kind="attached", at=NOW, tokens=estimate_text(pick.text)),
    ]


async def test_a_purge_drops_one_files_lines_and_no_others(location: Location, tmp_path: Path) -> None:
    """M14b."""
    memory = await Memory.at(location, tmp_path)
    change = MemoryChange(author="user", reason="told")
    saved = await memory.save(MemoryDraft(body="The build server is called hopper.", name="Server"), change)
    file = saved.entry.file
    (location.cache / "derived").write_text("hopper")
    events = [UsageEvent(file=name, kind="attached", at=NOW, tokens=5) for name in (file, "tea.md")]
    await record(location, events)
    await erase(memory, file, change)
    assert read_usage(location, [file, "tea.md"]) == {
        "tea.md": MemoryUsage(file="tea.md", attached=1, tokens=5, last=NOW)
    }
    assert digest(file).encode() not in ledger(location).read_bytes()
    assert not (location.cache / "derived").exists()


async def test_recording_waits_for_nobody_for_long(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger(location).parent.mkdir(parents=True)
    with monkeypatch.context() as short_wait, usage._lock(ledger(location).parent):
        short_wait.setattr(usage, "LOCK_SECONDS", 0.05)
        await record(location, [UsageEvent(file="tea.md", kind="offered", at=NOW)])
    assert not ledger(location).exists()
    await asyncio.gather(
        *[record(location, [UsageEvent(file="tea.md", kind="offered", at=NOW)]) for _ in "123"]
    )
    assert read_usage(location)["tea.md"].offered == 3
